// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"sync"

	"opensandbox.io/dataplane/event"
)

// maxKept bounds what is kept of things that happen between two runs: a thread that goes on printing,
// a task that displays something. The next run begins with them.
const maxKept = 64 << 10

// teller gives events to the run they belong to.
type teller struct {
	mu   sync.Mutex
	run  *Run // nil: between two runs
	kept []Event
	size int
}

func (t *teller) tell(e Event) {
	if run := t.current(e); run != nil {
		run.add(e) // may wait for the client
	}
}

// current is the run that e belongs to; without one e is kept while there is room.
func (t *teller) current(e Event) *Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.run == nil {
		size := len(e.Text)
		if e.Kind == event.Result {
			for _, value := range e.Result.Data {
				size += len(value)
			}
		}
		if t.size+size <= maxKept {
			t.kept, t.size = append(t.kept, e), t.size+size
		}
	}
	return t.run
}

// begin makes run the one that events belong to, those kept first.
func (t *teller) begin(run *Run) {
	t.mu.Lock()
	kept := t.kept
	t.kept, t.size = nil, 0
	t.mu.Unlock()
	for _, e := range kept {
		run.add(e)
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
