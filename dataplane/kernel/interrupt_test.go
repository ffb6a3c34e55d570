// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"maps"
	"slices"
	"testing"

	"opensandbox.io/dataplane/event"
)

// endless are cells that end only by an interrupt.
var endless = map[string]string{
	"python": "while True: pass", "bash": "while :; do :; done", "javascript": "while (true) {}", "java": "while (true) {}",
}

// interruptedAt is an interpreter in which interrupts come at the worst moments: when the context
// has begun with a cell and the interpreter has not, or the other way round.
type interruptedAt struct {
	interpreter
	context         *Context
	atBegin, atEnd  bool
	whatInterrupted error
}

func (i *interruptedAt) run(run *Run, request Request) *event.Error {
	if i.atBegin {
		i.whatInterrupted = i.context.Interrupt()
	}
	failure := i.interpreter.run(run, request)
	if i.atEnd {
		_ = i.context.Interrupt() // there may be nothing any more
	}
	return failure
}

func TestAnInterruptMeansTheCellThatGoesOn(t *testing.T) {
	for _, language := range slices.Sorted(maps.Keys(endless)) {
		t.Run(language, func(t *testing.T) {
			c := newContext(t, newContexts(t), language)
			run(t, c, Request{Code: cells[language]})
			real := c.interpreter
			moments := &interruptedAt{interpreter: real, context: c, atBegin: true}
			c.interpreter = moments
			got := run(t, c, Request{Code: endless[language]})
			if moments.whatInterrupted != nil || got.failure == nil {
				t.Errorf("before it began: got %v, %+v", moments.whatInterrupted, got)
			}
			moments.atBegin, moments.atEnd = false, true
			for range 2 {
				if got := run(t, c, Request{Code: cells[language]}); got.failure != nil {
					t.Errorf("after the end of a cell: the next one got %+v", got.failure)
				}
			}
			c.interpreter = real
		})
	}
}
