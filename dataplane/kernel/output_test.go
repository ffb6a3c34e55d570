// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"sync"
	"testing"
	"time"

	"opensandbox.io/dataplane/event"
)

// collector keeps pieces of text.
type collector struct {
	mu     sync.Mutex
	pieces []string
}

func (c *collector) add(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pieces = append(c.pieces, string(e.Text))
}

func (c *collector) joined() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.pieces, "|")
}

func TestPiecesEndWithLinesWhereTheyCan(t *testing.T) {
	for _, pieces := range [][]string{
		{"a\nb\n", "a\nb\n"}, {"a\nb", "a\n|b"}, {"ab", "ab"}, {"", ""},
	} {
		var c collector
		text := newText(event.Stdout, c.add)
		text.take([]byte(pieces[0]))
		text.flush()
		if c.joined() != pieces[1] {
			t.Errorf("%q: got %q", pieces[0], c.joined())
		}
	}
}

func TestALineThatComesInPiecesIsOne(t *testing.T) {
	var c collector
	text := newText(event.Stdout, c.add)
	for _, piece := range []string{"one ", "line ", "of gr\xc3", "\xbc\xc3\x9fe\n"} {
		text.take([]byte(piece))
	}
	text.flush()
	if c.joined() != "one line of grüße\n" {
		t.Errorf("got %q", c.joined())
	}
}

func TestHalfALineIsToldAfterAMomentButNotHalfACharacter(t *testing.T) {
	var c collector
	text := newText(event.Stdout, c.add)
	text.take([]byte("half\xc3"))
	for deadline := time.Now().Add(testTimeout); c.joined() == "" && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if c.joined() != "half" {
		t.Errorf("got %q", c.joined())
	}
	text.take([]byte("\xbc\n"))
	if c.joined() != "half|ü\n" {
		t.Errorf("got %q", c.joined())
	}
}

func TestALineWithoutEndIsToldInPieces(t *testing.T) {
	var c collector
	text := newText(event.Stdout, c.add)
	text.timer = time.AfterFunc(time.Hour, func() {}) // on a slow machine it would report shorter pieces
	for range 40 {
		text.take([]byte(strings.Repeat("€", 20_000)))
	}
	text.flush()
	if len(c.pieces) < 2 || len(c.pieces[0]) < maxPiece || strings.Join(c.pieces, "") != strings.Repeat("€", 800_000) {
		t.Errorf("got %d pieces", len(c.pieces))
	}
}
