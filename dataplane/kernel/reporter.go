// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"sync"
	"time"

	"opensandbox.io/dataplane/event"
)

// What is kept of things that happen between two runs: a thread that goes on printing, a task that
// displays something. The next run begins with them.
const (
	maxKept  = 64 << 10
	keptCost = 64 // of an event beside its content
)

// reporter gives events to the run they belong to.
type reporter struct {
	mu   sync.Mutex
	run  *Run // nil: between two runs
	kept []Event
	size int
	lost int // bytes for which there was no room
}

func (r *reporter) report(e Event) {
	if run := r.current(e); run != nil {
		run.add(e) // may wait for the client
	}
}

// show reports a result, of which only what a client can be given is kept while it waits.
func (r *reporter) show(result Result) {
	fitting, notes := event.Fit(result.Data)
	for _, note := range notes {
		r.report(Event{At: time.Now(), Kind: event.Stderr, Text: []byte(note)})
	}
	if len(fitting) > 0 || len(result.Data) == 0 {
		result.Data = fitting
		r.report(Event{At: time.Now(), Kind: event.Result, Result: &result})
	}
}

// current is the run that e belongs to; without one e is kept while there is room.
func (r *reporter) current(e Event) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		size := keptCost + len(e.Text)
		if e.Kind == event.Result {
			for _, value := range e.Result.Data {
				size += len(value)
			}
		}
		if r.lost == 0 && r.size+size <= maxKept {
			r.kept, r.size = append(r.kept, e), r.size+size
		} else {
			r.lost += size - keptCost
		}
	}
	return r.run
}

// begin makes run the one that events belong to, those kept first.
func (r *reporter) begin(run *Run) {
	r.mu.Lock()
	kept, lost := r.kept, r.lost
	r.kept, r.size, r.lost = nil, 0, 0
	r.mu.Unlock()
	for _, e := range kept {
		run.add(e)
	}
	if lost > 0 {
		note := fmt.Appendf(nil, "(%d more bytes came between the last run and this one and were not kept)\n", lost)
		run.add(Event{At: time.Now(), Kind: event.Stderr, Text: note})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = run
}

func (r *reporter) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = nil
}
