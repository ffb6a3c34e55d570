// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/process"
)

// startGo starts the runner for Go, which the image's own toolchain builds, once. It and its cells
// must be built alike.
func (c *Contexts) startGo(s start) (interpreter, error) {
	if _, err := process.FindProgram("go", s.env, "/"); err != nil {
		return nil, fmt.Errorf("%w: Go is not in this image; install Go and gcc", ErrNoKernel)
	}
	home, err := c.runnerDir("go")
	if err != nil {
		return nil, err
	}
	s.env = goEnvironment(s.env, home)
	program, err := c.goRunner(home, s)
	if err != nil {
		return nil, err
	}
	cells := filepath.Join(home, "cells-"+command.NewID())
	if err := os.Mkdir(cells, 0o755); err != nil {
		return nil, err
	}
	if err := copyFile(filepath.Join(home, "go.mod"), filepath.Join(cells, "go.mod")); err != nil {
		return nil, err
	}
	started, err := c.startRunner("go", s, program, cells)
	if err != nil {
		_ = os.RemoveAll(cells)
		return nil, err
	}
	return &goInterpreter{interpreter: started, cells: cells}, nil
}

// goInterpreter is a runner with a directory that it builds in.
type goInterpreter struct {
	interpreter
	cells string
}

func (g *goInterpreter) close() {
	g.interpreter.close()
	_ = os.RemoveAll(g.cells) // what is left goes with the daemon's own directory
}

// goEnvironment is env with what building plugins takes.
func goEnvironment(env map[string]string, home string) map[string]string {
	made := maps.Clone(env)
	made["CGO_ENABLED"], made["GOTOOLCHAIN"], made["GOFLAGS"], made["GOWORK"] = "1", "local", "", "off"
	if made["HOME"] == "" && made["GOCACHE"] == "" {
		made["GOCACHE"] = filepath.Join(home, "cache")
	}
	return made
}

// goRunner builds the runner when that was not done yet.
func (c *Contexts) goRunner(home string, s start) (string, error) {
	c.compiling.Lock()
	defer c.compiling.Unlock()
	program := filepath.Join(home, "runner")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	version, err := c.runTool(s, home, []string{"go", "env", "GOVERSION"})
	if err != nil {
		return "", fmt.Errorf("ask Go for its version: %w: %s", err, version)
	}
	module := "module cells\n\ngo " + strings.TrimPrefix(strings.Fields(version)[0], "go") + "\n"
	if err := os.WriteFile(filepath.Join(home, "go.mod"), []byte(module), 0o644); err != nil {
		return "", err
	}
	build := []string{"go", "build", "-ldflags=-s -w", "-o", program, "."}
	if words, err := c.runTool(s, home, build); err != nil {
		if strings.Contains(words, "gcc") || strings.Contains(words, "C compiler") {
			return "", fmt.Errorf("%w: Go needs gcc to build cells, which is not in this image; on Debian install gcc and libc6-dev", ErrNoKernel)
		}
		return "", fmt.Errorf("build the runner for Go: %w: %s", err, words)
	}
	return program, nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
