// SPDX-License-Identifier: Apache-2.0

package ingress

import "sync/atomic"

// streams counts what goes on between clients and sandboxes, for the server's metrics.
type streams struct {
	requests, webSockets streamCount
}

type streamCount struct{ open, begun atomic.Int64 }

// begin counts one; call what it returns at its end.
func (c *streamCount) begin() (end func()) {
	c.begun.Add(1)
	c.open.Add(1)
	return func() { c.open.Add(-1) }
}

// StreamCounts is one report of them: open now, and begun since this process started.
type StreamCounts struct {
	Open  int64 `json:"open"`
	Begun int64 `json:"begun"`
}

func (c *streamCount) read() StreamCounts { return StreamCounts{c.open.Load(), c.begun.Load()} }

func (s *streams) read() map[string]StreamCounts {
	return map[string]StreamCounts{"request": s.requests.read(), "websocket": s.webSockets.read()}
}
