// SPDX-License-Identifier: Apache-2.0

// Package command runs programs on request and remembers them: their output in a journal, their end
// in a status.
package command

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
)

// termGrace is how long an interrupted command has to end by itself before SIGKILL.
const termGrace = 3 * time.Second

// Request says what to run. Exactly one of Shell and Argv is set.
type Request struct {
	ID           string // chosen by the client, so that it can ask for a command whose stream never came; empty: a new one
	Shell        string
	Argv         []string
	Dir          string // expanded and checked; empty: the daemon's
	Env          map[string]string
	Identity     *process.Identity // nil: the daemon's own
	Timeout      time.Duration     // 0: none
	HasStdin     bool
	IsBackground bool // its client does not wait for it
}

// Result is how a command ended.
type Result struct {
	ExitCode int // -1: killed by a signal or not started
	Reason   string
	Started  time.Time
	Ended    time.Time
	// StartFailed means that there never was a process; Reason says why.
	StartFailed bool
}

// Succeeded reports exit status 0.
func (r Result) Succeeded() bool { return r.ExitCode == 0 && !r.StartFailed }

// Command is one program started on request.
type Command struct {
	ID           string
	IsBackground bool
	Journal      *journal.Journal
	Started      time.Time

	content text
	done    chan struct{}
	writing sync.Mutex // one writer of stdin at a time

	mu       sync.Mutex
	process  *process.Process // nil before the start, and for ever when it failed
	stdin    *os.File         // nil when it has none, or no longer
	timedOut bool
	result   Result // set before done is closed
}

// Done is closed when the command has ended. Its last output may still be on the way into the
// journal, which is sealed when all is there.
func (c *Command) Done() <-chan struct{} { return c.done }

// Result waits for the end.
func (c *Command) Result() Result {
	<-c.done
	return c.result
}

// Content is the command as it was asked for.
func (c *Command) Content() string { return c.content.read() }

// IsRunning reports whether the command has yet to end.
func (c *Command) IsRunning() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Interrupt asks the command's process group to end, and kills it when it has not after a grace
// period. It returns at once.
func (c *Command) Interrupt() error {
	c.mu.Lock()
	p := c.process
	c.mu.Unlock()
	if p == nil {
		return process.ErrNotRunning
	}
	return process.Terminate(p, c.done, termGrace)
}

// WriteStdin gives data to the program, waiting while its pipe is full, until ctx is done.
func (c *Command) WriteStdin(ctx context.Context, data []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	stdin := c.stdin
	c.mu.Unlock()
	if stdin == nil {
		return ErrNoStdin
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = stdin.SetWriteDeadline(time.Unix(1, 0))
	})
	_, err := stdin.Write(data)
	if !stop() {
		<-stopped
		_ = stdin.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoStdin, err)
	}
	return nil
}

// CloseStdin lets the program see the end of its input.
func (c *Command) CloseStdin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin == nil {
		return ErrNoStdin
	}
	err := c.stdin.Close()
	c.stdin = nil
	return err
}

// kill ends the group at once.
func (c *Command) kill() {
	c.mu.Lock()
	p := c.process
	c.mu.Unlock()
	if p != nil {
		_ = p.SignalGroup(syscall.SIGKILL) // it may have ended in this moment
	}
}

func (c *Command) timeOut() {
	c.mu.Lock()
	c.timedOut = true
	c.mu.Unlock()
	c.kill()
}

// wait collects the end: the exit, which makes the result, then the output there was at the exit.
func (c *Command) wait(timeout time.Duration, output []*Capture) {
	var timer *time.Timer
	if timeout > 0 {
		timer = time.AfterFunc(timeout, c.timeOut)
	}
	exit := c.process.Exit()
	if timer != nil {
		timer.Stop()
	}
	c.end(exit, timeout)
	for _, o := range output {
		o.Sync()
	}
	c.Journal.Seal()
}

func (c *Command) end(exit process.Exit, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result = Result{ExitCode: exit.Code, Reason: exit.String(), Started: c.Started, Ended: time.Now()}
	if c.timedOut && exit.Signal == syscall.SIGKILL {
		c.result.Reason = fmt.Sprintf("timed out after %s: killed", timeout)
	}
	if c.stdin != nil {
		_ = c.stdin.Close()
		c.stdin = nil
	}
	close(c.done)
}
