// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"plugin"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Failure is how a cell ended that did not succeed.
type Failure struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// interruptTimeout is how long interrupted code has to get to the next round of a loop. Code that
// waits for something is left waiting.
const interruptTimeout = 200 * time.Millisecond

// cells is all that earlier cells have left.
type cells struct {
	dir   string // of a module of its own
	wire  *wire
	count int
	known *known
	vars  map[string]any // pointers, by name
	stop  atomic.Bool    // read by loops of the code

	mu          sync.Mutex
	interrupted chan struct{} // closed by interrupt; nil: nothing runs
}

func newCells(dir string, w *wire) *cells {
	return &cells{dir: dir, wire: w, known: newKnown(), vars: map[string]any{}}
}

// interrupt ends the cell that runs.
func (c *cells) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.interrupted != nil {
		c.stop.Store(true)
		close(c.interrupted)
		c.interrupted = nil
	}
}

// expect makes the cell that comes next the one that an interrupt means.
func (c *cells) expect() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop.Store(false)
	c.interrupted = make(chan struct{})
	return c.interrupted
}

// run builds the expected cell, loads it and runs it.
func (c *cells) run(code string, interrupted <-chan struct{}) *Failure {
	defer func() {
		c.mu.Lock()
		c.interrupted = nil
		c.mu.Unlock()
	}()
	number := c.count
	c.count++
	parts, err := split(code, fmt.Sprintf("cell-%d", number))
	if err != nil {
		return &Failure{Name: "SyntaxError", Value: err.Error(), Traceback: strings.Split(err.Error(), "\n")}
	}
	loaded, failure := c.load(parts, number, interrupted)
	if c.stop.Load() { // while it was built: it must not begin
		return &Failure{Name: "KeyboardInterrupt", Traceback: []string{}}
	}
	if failure != nil {
		return failure
	}
	c.known.add(parts)
	return c.execute(loaded, number, interrupted)
}

// load builds the plugin. An expression that has no value is a statement. An interrupt ends the build,
// which may take longer than the daemon waits.
func (c *cells) load(parts *parts, number int, interrupted <-chan struct{}) (*plugin.Plugin, *Failure) {
	name := fmt.Sprintf("c%d", number)
	home := filepath.Join(c.dir, name)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, &Failure{Name: "BuildError", Value: err.Error(), Traceback: []string{}}
	}
	defer os.RemoveAll(home)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-interrupted:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		source, err := c.known.program(parts, c.vars)
		if err != nil {
			return nil, &Failure{Name: "SyntaxError", Value: err.Error(), Traceback: strings.Split(err.Error(), "\n")}
		}
		if err := os.WriteFile(filepath.Join(home, "cell.go"), []byte(source), 0o644); err != nil {
			return nil, &Failure{Name: "BuildError", Value: err.Error(), Traceback: []string{}}
		}
		object := filepath.Join(home, name+".so")
		build := exec.CommandContext(ctx, "go", "build", "-buildmode=plugin", "-ldflags=-s -w", "-o", object, "./"+name)
		build.Dir, build.WaitDelay = c.dir, interruptTimeout
		said, err := build.CombinedOutput()
		if err == nil {
			loaded, err := plugin.Open(object)
			if err != nil {
				return nil, &Failure{Name: "BuildError", Value: err.Error(), Traceback: []string{}}
			}
			return loaded, nil
		}
		if parts.hasValue && strings.Contains(string(said), "(no value) used as value") {
			parts.hasValue = false
			continue
		}
		return nil, buildFailure(string(said))
	}
}

// buildFailure is what the compiler says, without what it says of our own directory.
func buildFailure(said string) *Failure {
	lines := []string{}
	for _, line := range strings.Split(strings.TrimSpace(said), "\n") {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line[max(0, strings.Index(line, "cell-")):])
		}
	}
	return &Failure{Name: "CompilationError", Value: lines[0], Traceback: lines}
}

// execute runs a loaded cell in a goroutine of its own, so that one that never ends can be left.
func (c *cells) execute(loaded *plugin.Plugin, number int, interrupted <-chan struct{}) *Failure {
	made := newMade()
	*symbol[map[string]any](loaded, "K__Vars") = maps.Clone(c.vars) // code that is left may still read it
	*symbol[func(string, any)](loaded, "K__Keep") = made.keep
	*symbol[*atomic.Bool](loaded, "K__Stop") = &c.stop
	*symbol[func(...any)](loaded, "K__Show") = func(values ...any) {
		if !made.isOver() {
			c.showValue(number, values)
		}
	}
	*symbol[func(map[string]any)](loaded, "K__Display") = func(forms map[string]any) { c.wire.show(forms, 0) }
	ended := make(chan *Failure, 1)
	go runCell(*symbol[func()](loaded, "K__Cell"), ended)
	var failure *Failure
	select {
	case failure = <-ended:
	case <-interrupted:
		select {
		case <-ended:
		case <-time.After(interruptTimeout):
		}
		failure = &Failure{Name: "KeyboardInterrupt", Traceback: []string{}}
	}
	maps.Copy(c.vars, made.end())
	return failure
}

// made is what a cell has made so far. A cell that was left may make more, which nobody wants.
type made struct {
	mu   sync.Mutex
	vars map[string]any // pointers, by name; nil: the cell is over
}

func newMade() *made { return &made{vars: map[string]any{}} }

func (m *made) keep(name string, pointer any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.vars != nil {
		m.vars[name] = pointer
	}
}

// end returns all that there is, and there will be no more.
func (m *made) end() map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	vars := m.vars
	m.vars = nil
	return vars
}

func (m *made) isOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vars == nil
}

// symbol finds something that every cell has, because program wrote it.
func symbol[T any](loaded *plugin.Plugin, name string) *T {
	found, err := loaded.Lookup(name)
	if err != nil {
		panic(err)
	}
	return found.(*T)
}

// runCell runs a cell and reports its end also when it panics or its goroutine is ended.
func runCell(cell func(), ended chan<- *Failure) {
	var failure *Failure
	defer func() {
		if thrown := recover(); thrown != nil {
			failure = &Failure{Name: "panic", Value: fmt.Sprint(thrown), Traceback: trace(thrown)}
			if problem, ok := thrown.(runtime.Error); ok {
				failure.Name, failure.Value = "runtime error", strings.TrimPrefix(problem.Error(), "runtime error: ")
			}
		}
		ended <- failure
	}()
	cell()
}

// trace is where a panic came from, as far as it is the user's code.
func trace(thrown any) []string {
	lines := []string{fmt.Sprintf("panic: %v", thrown)}
	stack := strings.Split(string(debug.Stack()), "\n")
	for _, line := range stack {
		if at := strings.Index(line, "cell-"); at >= 0 {
			lines = append(lines, "    at "+strings.Fields(line[at:])[0])
		}
	}
	return lines
}

// showValue says the value of the last expression; what returns several values or none is a statement.
func (c *cells) showValue(number int, values []any) {
	if len(values) != 1 {
		return
	}
	text := fmt.Sprintf("%+v", values[0])
	if reflect.ValueOf(values[0]).Kind() == reflect.String {
		if _, isError := values[0].(error); !isError {
			text = fmt.Sprintf("%q", values[0])
		}
	}
	c.wire.show(map[string]any{"text/plain": text}, number)
}
