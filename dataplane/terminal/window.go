// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"sync"

	"golang.org/x/sys/unix"
)

// window is the last change of size, as long as it may be undone by accident.
type window struct {
	mu     sync.Mutex // guards all below
	before unix.Winsize
	wanted unix.Winsize
	checks int // how many more pieces of output to look at
}

// sizeChecks is how many pieces of output follow a resize before it counts as settled: enough for the
// echo of what was typed meanwhile and a prompt.
const sizeChecks = 16

func (s *shell) resize(cols, rows uint16) error {
	if s.mode != PTY {
		return nil
	}
	w := &s.window
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = unix.Winsize{Col: cols, Row: rows}
	return s.control(func(fd int) error {
		if before, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil {
			w.before, w.checks = *before, sizeChecks
		}
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &w.wanted)
	})
}

// insistOnSize sets the size again when it is what it was before the last resize. Before each prompt
// readline reads the size and sets what it has read; a resize between the two would be lost.
func (s *shell) insistOnSize() {
	w := &s.window
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checks == 0 {
		return
	}
	w.checks--
	_ = s.control(func(fd int) error { // without success it is the size that the program set
		now, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil && *now == w.before {
			err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &w.wanted)
		}
		return err
	})
}
