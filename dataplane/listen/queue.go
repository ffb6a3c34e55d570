// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// takeLimit bounds the wait for a connection that was in the queue and may be gone by now.
const takeLimit = time.Second

// deadliner is a listener whose Accept can be called back, and whose queue can be looked at.
type deadliner interface {
	net.Listener
	syscall.Conn
	SetDeadline(time.Time) error
}

// Queue is a listener that can end without losing who already waits in its queue: a client that
// connected before the end was served.
type Queue struct {
	net.Listener
	until atomic.Pointer[time.Time] // not nil: take what waits, until then at most
}

// Finish lets Accept return who waits in the queue, for at most the time given, and then
// net.ErrClosed. It does not wait for that.
func (q *Queue) Finish(atMost time.Duration) {
	until := time.Now().Add(atMost)
	q.until.Store(&until)
	if listener, ok := q.Listener.(deadliner); ok {
		_ = listener.SetDeadline(time.Unix(1, 0)) // fails only for a closed one
	} else {
		_ = q.Listener.Close()
	}
}

// Accept is as that of any listener until Finish.
func (q *Queue) Accept() (net.Conn, error) {
	if q.until.Load() == nil {
		conn, err := q.Listener.Accept()
		if err == nil || q.until.Load() == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
	}
	return q.acceptWaiting(*q.until.Load())
}

// acceptWaiting takes one of those who wait, if there is one.
func (q *Queue) acceptWaiting(until time.Time) (net.Conn, error) {
	listener, ok := q.Listener.(deadliner)
	for ok && time.Now().Before(until) && hasWaiting(listener) {
		_ = listener.SetDeadline(time.Now().Add(takeLimit))
		conn, err := listener.Accept()
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
	}
	return nil, net.ErrClosed
}

// hasWaiting says whether somebody is in the queue.
func hasWaiting(listener syscall.Conn) bool {
	raw, err := listener.SyscallConn()
	if err != nil {
		return false
	}
	ready := 0
	err = raw.Control(func(fd uintptr) {
		ready, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // as good as nobody
	})
	return err == nil && ready > 0
}
