// SPDX-License-Identifier: Apache-2.0

// Package kernel keeps code interpreters that stay from run to run. Each language has a small runner,
// written in that language, that speaks a line protocol on a descriptor; see runner.go. What code
// prints never passes for what the runner says.
package kernel

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/process"
)

// deleteGrace is how long the client of a deleted context has to read what is left.
const deleteGrace = 2 * time.Second

// interpreter holds the state of one context. run is never called twice at once, the others at any
// time.
type interpreter interface {
	// run runs code to its end and returns its failure; nil when there is none.
	run(run *Run, request Request) *event.Error
	// interrupt asks what runs to end and to keep the state. It may come before that has begun and
	// after it has ended.
	interrupt() error
	// conclude follows each run: an interrupt that came until now is not for the next one.
	conclude()
	// kill ends the interpreter at once, with everything it started.
	kill()
	hasEnded() bool
	// pid is its process; 0 when that is not its own.
	pid() int
	// close kills it and releases what belongs to it.
	close()
}

// Context is a code interpreter that stays. When its interpreter ends, the next run gets a new one
// without the state.
type Context struct {
	ID       string
	Language string

	contexts *Contexts
	dir      string
	envs     map[string]string
	turn     chan struct{} // holds a token while nothing runs; runs come one after another
	gone     chan struct{} // closed by Delete

	// Only who has the turn may touch these.
	interpreter   interpreter       // nil: none was needed yet
	given         map[string]string // environment it has been given
	isEndReported bool              // a run has reported to its client that the interpreter ended

	mu      sync.Mutex
	current *execution // nil: nothing runs
}

// execution is the run that goes on, and why it was asked to end before its time.
type execution struct {
	run         *Run
	interpreter interpreter // nil: it has not begun
	why         cause
	isKilled    bool
	grace       *time.Timer
	askedAt     time.Time     // when it was asked to end, and
	waited      time.Duration // how long its interpreter had waited for a processor until then
}

type cause int

const (
	byItself cause = iota
	interrupted
	timedOut
	deleted
)

// Start begins a run when those before it have ended. When ctx is done before, nothing is run. Every
// run must be read to its end or abandoned.
func (c *Context) Start(ctx context.Context, request Request) (*Run, error) {
	select {
	case <-c.turn:
	case <-c.gone:
		return nil, ErrUnknown
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	e := c.announce()
	c.contexts.runs.Add(1)
	go func() {
		defer c.contexts.runs.Done()
		e.run.end(c.execute(e, request))
		c.turn <- struct{}{}
	}()
	return e.run, nil
}

// announce makes a new run the one that Interrupt means.
func (c *Context) announce() *execution {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = &execution{run: newRun()}
	return c.current
}

// execute runs request and says how it ended.
func (c *Context) execute(e *execution, request Request) *event.Error {
	failure := c.attempt(e, request)
	c.conclude(e)
	return e.explain(failure, request.Timeout)
}

// attempt runs request in the living interpreter, or in a new one.
func (c *Context) attempt(e *execution, request Request) *event.Error {
	now := c.contexts.environ.For(nil, c.envs)
	if err := c.prepare(e.run, now); err != nil {
		return &event.Error{Name: "InterpreterNotStarted", Value: err.Error()}
	}
	if !c.begin(e) {
		return &event.Error{Name: "KeyboardInterrupt"}
	}
	request.Env = changed(c.given, now, request.Env)
	c.given = now
	if request.Timeout > 0 {
		timer := time.AfterFunc(request.Timeout, func() { _ = c.stop(e, timedOut) })
		defer timer.Stop()
	}
	failure := c.interpreter.run(e.run, request)
	c.isEndReported = c.interpreter.hasEnded()
	return failure
}

// begin gives a run its interpreter, unless somebody has asked it to end.
func (c *Context) begin(e *execution) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.gone:
		e.why = deleted
	default:
	}
	if e.why == byItself {
		e.interpreter = c.interpreter
	}
	return e.why == byItself
}

// conclude says that nothing runs any more. From then on nobody changes e, and nobody interrupts its
// interpreter.
func (c *Context) conclude(e *execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = nil
	if e.interpreter != nil {
		e.interpreter.conclude()
	}
	if e.grace != nil {
		e.grace.Stop()
	}
}

// prepare makes sure that an interpreter lives.
func (c *Context) prepare(run *Run, env map[string]string) error {
	if c.interpreter != nil && !c.interpreter.hasEnded() {
		return nil
	}
	if c.interpreter != nil {
		c.interpreter.close()
		c.interpreter = nil
		if !c.isEndReported {
			run.add(Event{At: time.Now(), Kind: event.Stderr,
				Text: []byte("The interpreter had ended since the last run. This is a new one, without the earlier state.\n")})
		}
	}
	return c.open(env)
}

// open starts the interpreter.
func (c *Context) open(env map[string]string) error {
	started, err := c.contexts.start(c.Language, start{dir: c.dir, env: env, envs: c.envs, cancelled: c.gone})
	if err != nil {
		return err
	}
	c.interpreter, c.given = started, env
	return nil
}

// changed is what is new or different in now, and request on top.
func changed(before, now, request map[string]string) map[string]string {
	changes := map[string]string{}
	for name, value := range now {
		if old, ok := before[name]; !ok || old != value {
			changes[name] = value
		}
	}
	maps.Copy(changes, request)
	return changes
}

// Interrupt asks what runs now to end. Code that does not is killed with its interpreter.
func (c *Context) Interrupt() error {
	c.mu.Lock()
	e := c.current
	c.mu.Unlock()
	if e == nil {
		return process.ErrNotRunning
	}
	return c.stop(e, interrupted)
}

// stop interrupts e for a reason, and kills its interpreter when that does not help.
func (c *Context) stop(e *execution, why cause) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != e {
		return process.ErrNotRunning
	}
	if e.interpreter == nil { // its interpreter starts: it will not begin
		e.why = why
		return nil
	}
	if e.why == byItself {
		e.why = why
		e.askedAt, e.waited = time.Now(), waitedForProcessor(e.interpreter.pid())
		e.grace = time.AfterFunc(interruptGrace, func() { c.giveUp(e) })
	}
	return e.interpreter.interrupt()
}

// giveUp kills an interpreter that had its grace.
func (c *Context) giveUp(e *execution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != e {
		return
	}
	waited := waitedForProcessor(e.interpreter.pid()) - e.waited
	if left := graceLeft(time.Since(e.askedAt), waited); left > 0 {
		e.grace.Reset(left)
		return
	}
	e.isKilled = true
	e.interpreter.kill()
}

// explain is the failure of a run that was asked to end, in words that say so.
func (e *execution) explain(failure *event.Error, limit time.Duration) *event.Error {
	if failure == nil {
		return nil // it ended by itself in that moment
	}
	how := "interrupted"
	if e.isKilled {
		how = fmt.Sprintf("it did not react to the interrupt within %s, so its interpreter was killed; the state is lost", interruptGrace)
	}
	switch {
	case e.why == deleted:
		return &event.Error{Name: "ContextDeleted", Value: "the context was deleted while this ran"}
	case e.why == timedOut:
		return &event.Error{Name: "TimeoutError", Value: fmt.Sprintf("timed out after %s: %s", limit, how), Traceback: failure.Traceback}
	case e.isKilled:
		return &event.Error{Name: "KeyboardInterrupt", Value: how}
	}
	return failure
}

// discard ends what runs and then the interpreter. It is called once, after gone was closed.
func (c *Context) discard() {
	c.mu.Lock()
	if e := c.current; e != nil {
		e.why = deleted
		if e.interpreter != nil {
			e.interpreter.kill()
		}
		slow := time.AfterFunc(deleteGrace, e.run.Abandon)
		defer slow.Stop()
	}
	c.mu.Unlock()
	<-c.turn
	if c.interpreter != nil {
		c.interpreter.close()
	}
}
