// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
)

// longScript is when shell text no longer fits an argument: the kernel allows 128 KiB for one.
const longScript = 100 << 10

// launch starts the process of cmd and the captures of its output.
func (c *Commands) launch(cmd *Command, request Request) ([]*Capture, error) {
	spec, err := request.spec()
	if err != nil {
		return nil, err
	}
	stdout, childStdout, err := process.OutputPipe()
	if err != nil {
		return nil, err
	}
	defer childStdout.Close()
	stderr, childStderr, err := process.OutputPipe()
	if err != nil {
		stdout.Close()
		return nil, err
	}
	defer childStderr.Close()
	childStdin, stdin, err := openStdin(request.HasStdin)
	if err == nil {
		defer childStdin.Close()
		spec.Files = append([]*os.File{childStdin, childStdout, childStderr}, spec.Files...)
		for _, script := range spec.Files[3:] {
			defer script.Close()
		}
		cmd.mu.Lock() // Close looks at the process
		cmd.process, err = c.table.Start(spec)
		cmd.stdin = stdin
		cmd.mu.Unlock()
	}
	if err != nil {
		stdout.Close()
		stderr.Close()
		if stdin != nil {
			stdin.Close()
		}
		return nil, err
	}
	return []*Capture{
		c.capture(stdout, cmd.Journal, journal.Stdout),
		c.capture(stderr, cmd.Journal, journal.Stderr),
	}, nil
}

// capture reads pipe into the journal for as long as somebody writes to it.
func (c *Commands) capture(pipe *os.File, j *journal.Journal, source journal.Source) *Capture {
	j.Hold()
	capture := NewCapture(pipe, toJournal(j, source))
	c.mu.Lock()
	c.captures[capture] = struct{}{}
	c.mu.Unlock()
	go func() {
		capture.Run()
		j.Release()
		c.mu.Lock()
		delete(c.captures, capture)
		c.mu.Unlock()
	}()
	return capture
}

func openStdin(isPipe bool) (childs, ours *os.File, err error) {
	if isPipe {
		return process.InputPipe()
	}
	childs, err = os.Open(os.DevNull)
	return childs, nil, err
}

// spec finds the program. Its Files, when there are any, come after the standard three.
func (r Request) spec() (process.Spec, error) {
	spec := process.Spec{Argv: r.Argv, Env: process.List(r.Env), Dir: r.Dir, Identity: r.Identity}
	var err error
	if r.Argv != nil {
		spec.Path, err = process.FindProgram(r.Argv[0], r.Env, r.Dir)
		return spec, err
	}
	if spec.Path, _, err = process.FindShell(r.Env); err != nil {
		return spec, err
	}
	if len(r.Shell) <= longScript {
		spec.Argv = []string{spec.Path, "-c", r.Shell}
		return spec, nil
	}
	script, err := scriptFile(r.Shell)
	if err != nil {
		return spec, err
	}
	spec.Argv = []string{spec.Path, "/proc/self/fd/3"} // small images have no /dev/fd
	spec.Files = []*os.File{script}
	return spec, nil
}

// scriptFile keeps text in memory as a file that a shell can read.
func scriptFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("keep long command: %w", err)
	}
	f := os.NewFile(uintptr(fd), "command")
	if _, err = f.WriteString(text); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("keep long command: %w", err)
	}
	return f, nil
}
