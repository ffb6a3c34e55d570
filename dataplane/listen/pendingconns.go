// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// PendingConns are the connections of a server whose first request has not reached its handler.
// http.Server.Shutdown drops such requests; who waits for them first does not.
type PendingConns struct {
	mu      sync.Mutex
	waiting map[net.Conn]struct{}
	none    chan struct{} // closed when there are none; nil: nobody waits for that
}

type connKey struct{}

// Watch begins to look at a server that does not serve yet and has no hooks for its connections.
func (p *PendingConns) Watch(server *http.Server) {
	p.waiting = map[net.Conn]struct{}{}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			p.mu.Lock()
			defer p.mu.Unlock()
			p.waiting[conn] = struct{}{}
		case http.StateClosed, http.StateHijacked:
			p.arrived(conn)
		}
	}
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.arrived(r.Context().Value(connKey{}).(net.Conn))
		handler.ServeHTTP(w, r)
	})
}

// Wait returns when there are none, or when ctx ends.
func (p *PendingConns) Wait(ctx context.Context) {
	p.mu.Lock()
	if len(p.waiting) == 0 {
		p.mu.Unlock()
		return
	}
	if p.none == nil {
		p.none = make(chan struct{})
	}
	none := p.none
	p.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

func (p *PendingConns) arrived(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, conn)
	if len(p.waiting) == 0 && p.none != nil {
		close(p.none)
		p.none = nil
	}
}
