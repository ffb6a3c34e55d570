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

// teller gives events to the run they belong to.
type teller struct {
	mu   sync.Mutex
	run  *Run // nil: between two runs
	kept []Event
	size int
	lost int // bytes for which there was no room
}

func (t *teller) tell(e Event) {
	if run := t.current(e); run != nil {
		run.add(e) // may wait for the client
	}
}

// show tells a result, of which only what a client can be given is kept while it waits.
func (t *teller) show(result Result) {
	fitting, notes := event.Fit(result.Data)
	for _, note := range notes {
		t.tell(Event{At: time.Now(), Kind: event.Stderr, Text: []byte(note)})
	}
	if len(fitting) > 0 || len(result.Data) == 0 {
		result.Data = fitting
		t.tell(Event{At: time.Now(), Kind: event.Result, Result: &result})
	}
}

// current is the run that e belongs to; without one e is kept while there is room.
func (t *teller) current(e Event) *Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run == nil {
		size := keptCost + len(e.Text)
		if e.Kind == event.Result {
			for _, value := range e.Result.Data {
				size += len(value)
			}
		}
		if t.lost == 0 && t.size+size <= maxKept {
			t.kept, t.size = append(t.kept, e), t.size+size
		} else {
			t.lost += size - keptCost
		}
	}
	return t.run
}

// begin makes run the one that events belong to, those kept first.
func (t *teller) begin(run *Run) {
	t.mu.Lock()
	kept, lost := t.kept, t.lost
	t.kept, t.size, t.lost = nil, 0, 0
	t.mu.Unlock()
	for _, e := range kept {
		run.add(e)
	}
	if lost > 0 {
		note := fmt.Appendf(nil, "(%d more bytes came between the last run and this one and were not kept)\n", lost)
		run.add(Event{At: time.Now(), Kind: event.Stderr, Text: note})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run = run
}

func (t *teller) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run = nil
}
