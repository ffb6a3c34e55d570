// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// SilenceLimit is the contract's longest time between two bytes of an exchange with a sandbox.
const SilenceLimit = 180 * time.Second

// deadlineSteps is how often in one limit a deadline is moved at most: moving it costs more than a
// small read.
const deadlineSteps = 64

var processStart = time.Now()

// copyBuffers are for bodies, both ways.
var copyBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// silence measures how long ago a deadline was last moved.
type silence struct {
	limit time.Duration
	moved atomic.Int64 // since processStart; 0 when never
}

// isDue says that the deadline must move, and to when.
func (s *silence) isDue() (time.Time, bool) {
	now := time.Now()
	elapsed := int64(now.Sub(processStart)) + 1 // never 0
	if last := s.moved.Load(); last != 0 && elapsed-last < int64(s.limit/deadlineSteps) {
		return time.Time{}, false
	}
	s.moved.Store(elapsed)
	return now.Add(s.limit), true
}

// backendConn is a connection to a backend on which something must move all the time: a byte in either
// direction gives both directions another limit.
type backendConn struct {
	net.Conn
	early   []byte // bytes that came with the answer to CONNECT
	silence silence
}

func newBackendConn(conn net.Conn, early []byte, limit time.Duration) *backendConn {
	return &backendConn{Conn: conn, early: early, silence: silence{limit: limit}}
}

func (c *backendConn) extend() {
	if deadline, isDue := c.silence.isDue(); isDue {
		_ = c.SetDeadline(deadline) // a closed connection says so at the next read
	}
}

func (c *backendConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	c.extend()
	return c.Conn.Read(p)
}

func (c *backendConn) Write(p []byte) (int, error) {
	c.extend()
	return c.Conn.Write(p)
}

// ReadFrom makes uploads use a pooled buffer, and extends with every part of them.
func (c *backendConn) ReadFrom(r io.Reader) (int64, error) {
	buffer := copyBuffers.Get().(*[64 << 10]byte)
	defer copyBuffers.Put(buffer)
	return io.CopyBuffer(writerOnly{c}, r, buffer[:])
}

type writerOnly struct{ io.Writer }

// stallConn gives up on a peer that reads nothing of what we write. It leaves read deadlines to others:
// http.Server has its own, and a WebSocket may be silent as long as both ends like it.
type stallConn struct {
	net.Conn
	silence silence
}

func (c *stallConn) Write(p []byte) (int, error) {
	if deadline, isDue := c.silence.isDue(); isDue {
		_ = c.SetWriteDeadline(deadline)
	}
	return c.Conn.Write(p)
}
