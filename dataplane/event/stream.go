// SPDX-License-Identifier: Apache-2.0

package event

import (
	"net/http"
	"sync"
	"time"
)

// pingInterval keeps proxies on the way from closing a silent stream.
const pingInterval = 3 * time.Second

// Stream sends frames to one client, each batch as soon as it is given. Pings go in between.
type Stream struct {
	mu     sync.Mutex // one sender at a time; guards all below
	w      http.ResponseWriter
	flush  func() error
	limit  func(time.Time) error // sets when a write must be over
	wait   time.Duration         // how long a write may take; 0: for ever
	ping   *time.Timer
	isOver bool
	err    error
}

// NewStream writes the response header. Close must be called before the handler returns.
func NewStream(w http.ResponseWriter) *Stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	controller := http.NewResponseController(w)
	s := &Stream{w: w, flush: controller.Flush, limit: controller.SetWriteDeadline}
	s.ping = time.AfterFunc(pingInterval, s.sendPing)
	return s
}

// LimitWait cuts off a client that takes nothing for this long. Without it Send waits for ever.
func (s *Stream) LimitWait(wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait = wait
}

// Send writes whole frames and flushes them. It blocks while the client does not read; after the
// client has gone every call returns the first error.
func (s *Stream) Send(frames []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.send(frames)
}

func (s *Stream) send(frames []byte) error {
	if s.err == nil && s.wait > 0 {
		s.err = s.limit(time.Now().Add(s.wait))
	}
	if s.err == nil {
		_, s.err = s.w.Write(frames)
	}
	if s.err == nil {
		s.err = s.flush()
	}
	return s.err
}

func (s *Stream) sendPing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOver || s.err != nil {
		return
	}
	if s.send(AppendText(nil, Ping, []byte("pong"), time.Now(), -1)) == nil {
		s.ping.Reset(pingInterval)
	}
}

// Close ends the pings; nothing touches the response after it returns.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOver = true
	s.ping.Stop()
	if s.wait > 0 {
		_ = s.limit(time.Time{}) // the connection may serve other requests
	}
}
