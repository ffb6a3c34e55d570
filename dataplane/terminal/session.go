// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"sync"
	"time"

	"opensandbox.io/dataplane/process"
)

// Terminal is one shell and the place of the one client that may be attached to it.
type Terminal struct {
	ID      string
	table   *process.Table
	environ *process.Environ
	spec    Spec
	ended   chan struct{} // closed when the shell has ended and all it wrote was delivered

	launching sync.Mutex // held while the shell starts, so that it starts once
	output    sync.Mutex // held from remembering a chunk to handing it over: both in one order

	mu        sync.Mutex // guards all below
	ring      ring
	client    *Client
	shell     *shell // nil before it was started
	isDeleted bool
	hasFailed bool // the last attempt to start failed
	endedAt   time.Time
}

// Status is what can be asked about a terminal without attaching.
type Status struct {
	IsRunning       bool
	OutputOffset    int64
	LaunchAttempted bool
	LaunchFailed    bool
}

// Status tells how the terminal is now.
func (t *Terminal) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Status{
		IsRunning:       t.shell != nil && !t.hasEnded(),
		OutputOffset:    t.ring.end,
		LaunchAttempted: t.shell != nil || t.hasFailed,
		LaunchFailed:    t.hasFailed,
	}
}

// Attach takes the place of the client. When it is taken, takesOver decides between sending the old
// client away with ErrTakenOver and failing with ErrAttached. Everything written after offset since
// reaches the new client exactly once: as replay or as output.
func (t *Terminal) Attach(since int64, takesOver bool) (*Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isDeleted {
		return nil, ErrGone
	}
	if t.client != nil {
		if !takesOver {
			return nil, ErrAttached
		}
		t.client.sendAway(ErrTakenOver)
	}
	c := &Client{terminal: t, output: make(chan Chunk, outputBacklog), gone: make(chan struct{})}
	c.replayOffset, c.replay = t.ring.since(since)
	if t.hasEnded() {
		close(c.output)
	}
	t.client = c
	return c, nil
}

func (t *Terminal) hasEnded() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// isLeftover says that nothing runs here and nobody looks.
func (t *Terminal) isLeftover() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hasEnded() && t.client == nil
}

// deliver remembers what the shell wrote and hands it to the client, if there is one. It blocks while
// the client has not taken what it was given before: that is the back-pressure on the shell.
func (t *Terminal) deliver(chunk Chunk) {
	t.output.Lock()
	defer t.output.Unlock()
	t.mu.Lock()
	t.ring.append(chunk.Data)
	c := t.client
	t.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case c.output <- chunk.clone():
	case <-c.gone:
	}
}

// finish is called when nothing more will be delivered.
func (t *Terminal) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endedAt = time.Now()
	close(t.ended)
	if t.client != nil {
		close(t.client.output)
	}
}

// flushGrace bounds how long the last output of a deleted terminal waits for a slow client.
const flushGrace = time.Second

// end kills the shell with everything in its session and waits until all of it is over.
func (t *Terminal) end() {
	t.mu.Lock()
	t.isDeleted = true
	t.mu.Unlock()
	t.launching.Lock() // a shell that is starting is started, and then it is ours to end
	defer t.launching.Unlock()

	t.mu.Lock()
	sh := t.shell
	t.mu.Unlock()
	if sh != nil {
		sh.hangUp()
		timer := time.NewTimer(flushGrace)
		defer timer.Stop()
		select {
		case <-t.ended:
			return // the client has its exit and goes by itself
		case <-timer.C:
		}
	}
	t.mu.Lock()
	if t.client != nil {
		t.client.sendAway(ErrGone)
	}
	t.mu.Unlock()
	if sh != nil {
		<-t.ended
	}
}
