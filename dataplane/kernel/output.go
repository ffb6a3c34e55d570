// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"opensandbox.io/dataplane/command"
)

const (
	// maxPiece is when a line that does not end is reported in pieces.
	maxPiece = 1 << 20
	// partTimeout is how long the beginning of a line waits for its end. A long line comes through
	// the pipe in pieces within less; whoever writes half a line on purpose waits no longer.
	partTimeout = 20 * time.Millisecond
)

// text turns bytes into pieces of text, which end with lines where that is possible: clients put a
// line feed between two pieces.
type text struct {
	kind   string
	report func(Event)

	mu    sync.Mutex
	part  []byte // of a line whose end has not come
	timer *time.Timer
}

func newText(kind string, report func(Event)) *text {
	t := &text{kind: kind, report: report}
	t.timer = time.AfterFunc(time.Hour, t.flushWhole)
	t.timer.Stop()
	return t
}

func (t *text) take(data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	if end := bytes.LastIndexByte(data, '\n') + 1; end > 0 {
		t.send(append(t.part, data[:end]...))
		t.part, data = nil, data[end:]
	}
	t.part = append(t.part, data...)
	if len(t.part) >= maxPiece {
		t.sendWhole()
	}
	if len(t.part) > 0 {
		t.timer.Reset(partTimeout)
	}
}

// flush reports all there is, also half a character.
func (t *text) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	t.send(t.part)
	t.part = nil
}

// flushWhole reports all there is but the beginning of a character.
func (t *text) flushWhole() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sendWhole()
}

func (t *text) sendWhole() {
	whole := len(t.part)
	for i := max(0, whole-utf8.UTFMax+1); i < len(t.part); i++ {
		if utf8.RuneStart(t.part[i]) && !utf8.FullRune(t.part[i:]) {
			whole = i
			break
		}
	}
	t.send(t.part[:whole])
	t.part = bytes.Clone(t.part[whole:])
}

func (t *text) send(piece []byte) {
	if len(piece) > 0 {
		t.report(Event{At: time.Now(), Kind: t.kind, Text: piece})
	}
}

// output is the text that comes through one descriptor of a runner.
type output struct {
	*text
	capture *command.Capture
}

// newOutput reads pipe until its last writer has gone and reports what it reads.
func newOutput(kind string, pipe *os.File, report func(Event)) *output {
	o := &output{text: newText(kind, report)}
	o.capture = command.NewCapture(pipe, o.take)
	go func() {
		o.capture.Run()
		o.flush()
	}()
	return o
}

// sync returns when everything written before it has been reported.
func (o *output) sync() {
	o.capture.Sync()
	o.flush()
}

func (o *output) close() {
	o.capture.Close()
	o.flush()
}
