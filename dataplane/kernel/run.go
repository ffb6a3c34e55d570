// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"opensandbox.io/dataplane/event"
)

// Request is one run: code, and what differs from the run before.
type Request struct {
	Code    string
	Env     map[string]string // set before the run
	Timeout time.Duration     // 0: none
}

// Event is one thing that happened in a run before its end: output, or a value.
type Event struct {
	At   time.Time
	Kind string // event.Stdout, event.Stderr or event.Result
	Text []byte // of output

	Result *Result
}

// Result is a value, or something the code displays, in every form the language has for it.
type Result struct {
	Data      map[string]json.RawMessage // by MIME type
	Count     int                        // of the cell whose value it is; 0: displayed, not the value
	DisplayID string                     // what an update names; empty: it has none
	IsUpdate  bool                       // replaces what was displayed with this id
}

// Outcome is how a run ended.
type Outcome struct {
	Error   *event.Error // nil: it succeeded
	Started time.Time
	Ended   time.Time
}

// queueLength bounds what a run holds for a client that is slower than the code: this many pieces of
// at most maxPiece. Then the code waits.
const queueLength = 16

// Run is one run in a context, reported once, to one reader.
type Run struct {
	events    chan Event
	abandoned chan struct{}
	abandon   sync.Once
	done      chan struct{}
	outcome   Outcome // set before done is closed
}

func newRun() *Run {
	return &Run{
		events: make(chan Event, queueLength), abandoned: make(chan struct{}), done: make(chan struct{}),
		outcome: Outcome{Started: time.Now()},
	}
}

// Next returns the next event, waiting for it. It returns io.EOF at the end of the run.
func (r *Run) Next(ctx context.Context) (Event, error) {
	if e, ok := r.Poll(); ok {
		return e, nil
	}
	select {
	case e := <-r.events:
		return e, nil
	case <-r.done:
		if e, ok := r.Poll(); ok { // what came before the end and was not chosen
			return e, nil
		}
		return Event{}, io.EOF
	case <-ctx.Done():
		return Event{}, context.Cause(ctx)
	}
}

// Poll is Next without waiting.
func (r *Run) Poll() (Event, bool) {
	select {
	case e := <-r.events:
		return e, true
	default:
		return Event{}, false
	}
}

// Abandon says that nobody reads any more: the run goes on and its events go nowhere.
func (r *Run) Abandon() { r.abandon.Do(func() { close(r.abandoned) }) }

// Outcome waits for the end.
func (r *Run) Outcome() Outcome {
	<-r.done
	return r.outcome
}

// add reports an event; it waits for a slow reader.
func (r *Run) add(e Event) {
	select {
	case <-r.abandoned:
		return
	default:
	}
	select {
	case r.events <- e:
	case <-r.abandoned:
	}
}

// end is called once, after the last add.
func (r *Run) end(failure *event.Error) {
	r.outcome.Error, r.outcome.Ended = failure, time.Now()
	close(r.done)
}
