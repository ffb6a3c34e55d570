// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"opensandbox.io/dataplane/journal"
)

const readSize = 64 << 10 // the capacity of a pipe

var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// Capture moves what processes write into one pipe to where it belongs. It reads the pipe until its
// last writer has gone, so that a process which outlives its command can go on writing.
type Capture struct {
	pipe *os.File
	take func([]byte)
	over chan struct{}

	mu     sync.Mutex
	synced chan struct{} // closed when the bytes of a Sync have been taken; nil: none is asked for
}

// NewCapture is a capture of pipe, our end of a process.OutputPipe, that gives every piece to take.
// It does nothing before Run.
func NewCapture(pipe *os.File, take func([]byte)) *Capture {
	return &Capture{pipe: pipe, take: take, over: make(chan struct{})}
}

// toJournal is a take function that appends. A journal that is gone must not stop the program, so
// its errors end with it.
func toJournal(j *journal.Journal, source journal.Source) func([]byte) {
	return func(data []byte) { _ = j.Append(source, data) }
}

// Sync returns when everything that was in the pipe at the call has been taken. Called after a
// process has ended, it returns with all that the process wrote.
func (c *Capture) Sync() {
	c.mu.Lock()
	if c.synced == nil {
		c.synced = make(chan struct{})
		_ = c.pipe.SetReadDeadline(time.Unix(1, 0)) // wakes Run; fails only when Run is over
	}
	synced := c.synced
	c.mu.Unlock()
	select {
	case <-synced:
	case <-c.over:
	}
}

// IsOver reports that the last writer has gone.
func (c *Capture) IsOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// Close stops reading; what still writes gets SIGPIPE.
func (c *Capture) Close() {
	_ = c.pipe.Close()
	<-c.over
}

// Run reads until the last writer has gone, or Close.
func (c *Capture) Run() {
	defer close(c.over)
	defer c.pipe.Close()
	conn, err := c.pipe.SyscallConn()
	if err != nil {
		return
	}
	for {
		n, err := c.read(conn)
		switch {
		case os.IsTimeout(err):
			c.answerSync(conn)
		case err != nil || n == 0:
			return
		}
	}
}

func (c *Capture) answerSync(conn syscall.RawConn) {
	c.drain(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.pipe.SetReadDeadline(time.Time{}) // fails only when the pipe is closed, and then read tells
	close(c.synced)
	c.synced = nil
}

// read waits for bytes and takes them. It needs no buffer while it waits: hundreds of silent
// commands cost nothing.
func (c *Capture) read(conn syscall.RawConn) (n int, err error) {
	var readErr error
	buffer := (*[readSize]byte)(nil)
	err = conn.Read(func(fd uintptr) bool {
		buffer = readBuffers.Get().(*[readSize]byte)
		n, readErr = unix.Read(int(fd), buffer[:])
		if readErr == unix.EAGAIN || readErr == unix.EINTR {
			readBuffers.Put(buffer)
			buffer = nil
			return false
		}
		return true
	})
	if buffer != nil {
		if err == nil && readErr == nil && n > 0 {
			c.take(buffer[:n])
		}
		readBuffers.Put(buffer)
	}
	if err == nil {
		err = readErr
	}
	return n, err
}

// drain takes the bytes that are in the pipe now and no more: another process may be writing as fast
// as we read.
func (c *Capture) drain(conn syscall.RawConn) {
	buffer := readBuffers.Get().(*[readSize]byte)
	defer readBuffers.Put(buffer)
	_ = conn.Control(func(fd uintptr) {
		left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		for err == nil && left > 0 {
			var n int
			n, err = unix.Read(int(fd), buffer[:min(left, readSize)])
			if n > 0 {
				c.take(buffer[:n])
			}
			if n == 0 {
				return
			}
			left -= n
		}
	})
}
