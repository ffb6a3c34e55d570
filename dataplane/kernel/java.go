// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"opensandbox.io/dataplane/process"
)

// javaOptions make a small and fast beginning of a machine that runs cells. The last one is how the
// runner gets to its descriptors.
var javaOptions = []string{
	"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto",
	"-Dfile.encoding=UTF-8", "--add-opens=java.base/java.io=ALL-UNNAMED",
}

// startJava starts a Java machine with a JShell. The runner is compiled by the image's own compiler,
// once.
func (c *Contexts) startJava(s start) (interpreter, error) {
	java, err := process.FindProgram("java", s.env, "/")
	if err == nil {
		_, err = process.FindProgram("jshell", s.env, "/")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: Java needs a JDK with jshell, which is not in this image; on Debian install openjdk-17-jdk-headless", ErrNoKernel)
	}
	classes, err := c.javaClasses(s)
	if err != nil {
		return nil, err
	}
	argv := append([]string{java}, javaOptions...)
	return c.startRunner("java", s, append(argv, "-cp", classes, "opensandbox.Runner", classes)...)
}

// javaClasses compiles the runner when that was not done yet.
func (c *Contexts) javaClasses(s start) (string, error) {
	home, err := c.runnerDir("java")
	if err != nil {
		return "", err
	}
	c.compiling.Lock()
	defer c.compiling.Unlock()
	classes := filepath.Join(home, "classes")
	if _, err := os.Stat(classes); err == nil {
		return classes, nil
	}
	sources, err := filepath.Glob(filepath.Join(home, "opensandbox", "*.java"))
	if err != nil {
		return "", err
	}
	draft := classes + ".new"
	argv := append([]string{"javac", "-encoding", "UTF-8", "-d", draft}, sources...)
	if words, err := c.runTool(s, home, argv); err != nil {
		return "", fmt.Errorf("compile the runner for Java: %w: %s", err, words)
	}
	return classes, os.Rename(draft, classes)
}

// runTool runs a program of the image in dir to its end and returns what it said.
func (c *Contexts) runTool(s start, dir string, argv []string) (string, error) {
	program, err := process.FindProgram(argv[0], s.env, "/")
	if err != nil {
		return "", err
	}
	said, childSaid, err := process.OutputPipe()
	if err != nil {
		return "", err
	}
	defer said.Close()
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		childSaid.Close()
		return "", err
	}
	defer nothing.Close()
	running, err := c.table.Start(process.Spec{
		Path: program, Argv: argv, Env: process.List(s.env), Dir: dir, Files: []*os.File{nothing, childSaid, childSaid},
	})
	childSaid.Close()
	if err != nil {
		return "", err
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-s.cancelled:
			_ = running.SignalGroup(syscall.SIGKILL) // it may have ended in this moment
		case <-over:
		}
	}()
	words, _ := io.ReadAll(io.LimitReader(said, 64<<10)) // the end of its output, or of our interest
	if exit := running.Exit(); exit.ShellStatus() != 0 {
		return strings.TrimSpace(string(words)), fmt.Errorf("%s: %s", argv[0], exit)
	}
	return strings.TrimSpace(string(words)), nil
}
