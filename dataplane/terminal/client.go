// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"opensandbox.io/dataplane/process"
)

// Mode is how the shell is connected.
type Mode string

// PTY is a terminal device. Pipe has separate stdout and stderr and nothing that echoes or edits.
const (
	PTY  Mode = "pty"
	Pipe Mode = "pipe"
)

// Stream is where output came from. A terminal device has only Stdout.
type Stream byte

// The streams, numbered as the frames that carry them.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// MaxChunk bounds one chunk: with its type byte it makes a message of 32 KiB, the default limit of some
// WebSocket clients.
const MaxChunk = 32<<10 - 1

// outputBacklog is how many chunks wait for a client before the shell does.
const outputBacklog = 8

// Chunk is a piece of output.
type Chunk struct {
	Stream Stream
	Data   []byte
}

func (c Chunk) clone() Chunk { return Chunk{Stream: c.Stream, Data: bytes.Clone(c.Data)} }

// Client is one attachment. Detach must be called; the other methods are for one reader and one writer.
type Client struct {
	terminal     *Terminal
	replayOffset int64
	replay       []byte
	output       chan Chunk
	gone         chan struct{} // closed once this is no longer the client
	cause        error         // why; set before gone is closed
}

// Launch starts the shell when this is the first attachment, and tells its mode: that of its start.
// After a failed start the next client's Launch tries again.
func (c *Client) Launch(mode Mode) (Mode, error) {
	t := c.terminal
	t.launching.Lock()
	defer t.launching.Unlock()
	t.mu.Lock()
	sh, isDeleted := t.shell, t.isDeleted
	t.mu.Unlock()
	if sh != nil {
		return sh.mode, nil
	}
	if isDeleted {
		return mode, ErrGone
	}
	sh, err := startShell(t, mode)
	t.mu.Lock()
	t.shell, t.hasFailed = sh, err != nil
	t.mu.Unlock()
	if err != nil {
		return mode, err
	}
	go t.supervise(sh)
	return mode, nil
}

// Replay is what was written since the offset asked for, as far as it is kept, and the offset of its
// first byte. It gives the bytes once, and keeps them no longer.
func (c *Client) Replay() (offset int64, missed []byte) {
	missed, c.replay = c.replay, nil
	return c.replayOffset, missed
}

// Output gives what the shell writes from now on. It is closed after the last chunk; then Exit tells
// how the shell ended.
func (c *Client) Output() <-chan Chunk { return c.output }

// Gone is closed when the client lost its place; Cause tells why.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Cause is ErrTakenOver or ErrGone; valid once Gone is closed.
func (c *Client) Cause() error { return c.cause }

// Exit tells how the shell ended; valid once Output is closed.
func (c *Client) Exit() process.Exit { return c.terminal.shell.process.Exit() }

// Detach leaves the terminal; the shell goes on.
func (c *Client) Detach() {
	t := c.terminal
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == c {
		c.sendAway(nil)
	}
}

// sendAway ends the attachment; the terminal's mu is held and c is its client.
func (c *Client) sendAway(cause error) {
	c.terminal.client = nil
	c.cause = cause
	close(c.gone)
}

// Write gives input to the shell. It waits a bounded time for a program that does not read; what was
// not written then is lost, and the error says so.
func (c *Client) Write(input []byte) error {
	sh, err := c.current()
	if err != nil {
		return err
	}
	return sh.write(input)
}

// Resize changes the size of the window. Without a terminal device there is no window, and it does
// nothing: clients send their size whatever the mode.
func (c *Client) Resize(cols, rows uint16) error {
	sh, err := c.current()
	if err != nil {
		return err
	}
	return sh.resize(cols, rows)
}

// Signal sends sig to what runs in the foreground.
func (c *Client) Signal(sig syscall.Signal) error {
	sh, err := c.current()
	if err != nil {
		return err
	}
	if err := sh.signalForeground(sig); err != nil && !errors.Is(err, process.ErrNotRunning) {
		return fmt.Errorf("send %v: %w", sig, err)
	}
	return nil
}

// current is the shell, as long as this is the terminal's client.
func (c *Client) current() (*shell, error) {
	t := c.terminal
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client != c || t.shell == nil {
		return nil, ErrGone
	}
	return t.shell, nil
}
