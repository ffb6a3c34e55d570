// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"context"
	"errors"
	"sync"
)

var errShutdown = errors.New("the daemon is shutting down")

// connections are those that http.Server no longer ends or waits for: tunnels, WebSockets and what is
// proxied. The zero value has none.
type connections struct {
	mu       sync.Mutex // guards all below
	closing  context.Context
	close    context.CancelCauseFunc
	running  sync.WaitGroup
	isClosed bool
}

// begin gives a connection its context, which ends with parent and at shutdown. The connection must
// call end when it is over.
func (c *connections) begin(parent context.Context) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(parent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		cancel(errShutdown)
		return ctx, func() {}
	}
	c.init()
	c.running.Add(1)
	stop := context.AfterFunc(c.closing, func() { cancel(errShutdown) })
	return ctx, func() {
		stop()
		cancel(nil)
		c.running.Done()
	}
}

func (c *connections) init() {
	if c.closing == nil {
		c.closing, c.close = context.WithCancelCause(context.Background())
	}
}

// closeAll ends every connection, waits until they are over and lets none begin after it.
func (c *connections) closeAll() {
	c.mu.Lock()
	c.isClosed = true
	c.init()
	c.close(errShutdown)
	c.mu.Unlock()
	c.running.Wait()
}
