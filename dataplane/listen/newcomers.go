// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Newcomers are the connections of a server whose first request has not reached its handler.
// http.Server.Shutdown drops such requests; who waits for them first does not.
type Newcomers struct {
	mu      sync.Mutex
	waiting map[net.Conn]struct{}
	none    chan struct{} // closed when there are none; nil: nobody waits for that
}

type connKey struct{}

// Watch begins to look at a server that does not serve yet and has no hooks for its connections.
func (n *Newcomers) Watch(server *http.Server) {
	n.waiting = map[net.Conn]struct{}{}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			n.mu.Lock()
			defer n.mu.Unlock()
			n.waiting[conn] = struct{}{}
		case http.StateClosed, http.StateHijacked:
			n.arrived(conn)
		}
	}
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.arrived(r.Context().Value(connKey{}).(net.Conn))
		handler.ServeHTTP(w, r)
	})
}

// Wait returns when there are none, or when ctx ends.
func (n *Newcomers) Wait(ctx context.Context) {
	n.mu.Lock()
	if len(n.waiting) == 0 {
		n.mu.Unlock()
		return
	}
	if n.none == nil {
		n.none = make(chan struct{})
	}
	none := n.none
	n.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

func (n *Newcomers) arrived(conn net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waiting, conn)
	if len(n.waiting) == 0 && n.none != nil {
		close(n.none)
		n.none = nil
	}
}
