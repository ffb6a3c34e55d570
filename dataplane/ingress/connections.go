// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limits bound the connections that clients hold at once; 0 is no bound.
type Limits struct {
	Connections int // of all clients
	PerPeer     int // of one address that is not of this machine
}

// LimitsFor fits both bounds to the number of descriptors that the process may have open: a connection
// may need two, and one peer gets at most half of all.
func LimitsFor(l Limits, descriptors uint64) Limits {
	if l.Connections == 0 {
		const kept, most = 256, 65536 // kept for connections that wait and for ourselves
		l.Connections = int(max(16, min(most, (max(descriptors, kept)-kept)/2)))
	}
	if l.PerPeer == 0 {
		l.PerPeer = max(1, l.Connections/2)
	}
	return l
}

// connections counts the open ones of all listeners.
type connections struct {
	mu      sync.Mutex // guards all below
	limits  Limits
	total   int
	peers   map[netip.Prefix]int
	refused time.Time // when it was last logged
}

// SetLimits says how many connections are let in from now on.
func (s *Server) SetLimits(l Limits) {
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	s.connections.limits = l
}

// enter counts a connection in and returns what counts it out, or nil when there are too many.
func (c *connections) enter(address net.Addr) (leave func()) {
	peer, isCounted := peerOf(address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits.Connections > 0 && c.total >= c.limits.Connections {
		return nil
	}
	if isCounted && c.limits.PerPeer > 0 && c.peers[peer] >= c.limits.PerPeer {
		return nil
	}
	if c.peers == nil {
		c.peers = make(map[netip.Prefix]int)
	}
	c.total++
	if isCounted {
		c.peers[peer]++
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.total--
		if isCounted {
			if c.peers[peer]--; c.peers[peer] == 0 {
				delete(c.peers, peer)
			}
		}
	})
}

// peerOf is who is counted as one: an address, or the network that one holder of IPv6 addresses has.
// Many clients share the address of this machine, such as all that come through a proxy on it.
func peerOf(address net.Addr) (peer netip.Prefix, isCounted bool) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return netip.Prefix{}, false
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	peer, err := ip.Prefix(bits)
	return peer, err == nil
}

// isQuiet says that a refusal was logged just now.
func (c *connections) isQuiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.refused) < refusalLogPause {
		return true
	}
	c.refused = time.Now()
	return false
}

const (
	// refusalLogPause is the shortest time between two lines about refused connections.
	refusalLogPause = 10 * time.Second
	// acceptPause is the first wait after accept failed, as when the process has no descriptor left. It
	// doubles up to longestAcceptPause.
	acceptPause        = 5 * time.Millisecond
	longestAcceptPause = time.Second
)

// refusal is the whole answer to a connection too many.
var refusal = func() []byte {
	const body = `{"code":"` + codeTooManyConnections + `","message":"too many connections; try again"}`
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Retry-After: 1\r\nConnection: close\r\n\r\n%s", len(body), body)
}()

// Listener makes connections that are counted, and on which a client that stops reading is given up.
func (s *Server) Listener(from net.Listener) net.Listener {
	return &listener{Listener: from, server: s, closed: make(chan struct{})}
}

type listener struct {
	net.Listener
	server *Server
	once   sync.Once
	closed chan struct{}
}

// Accept waits for the next connection that may be. Only the end of the listener ends it: what else
// can fail, as when descriptors or memory run out, passes.
func (l *listener) Accept() (net.Conn, error) {
	pause := acceptPause
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			if guarded := l.admit(conn); guarded != nil {
				return guarded, nil
			}
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		l.server.log.Warn("cannot accept; trying again", "error", err.Error(), "pause", pause.String())
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case <-time.After(pause):
		}
		pause = min(2*pause, longestAcceptPause)
	}
}

// admit returns the connection with its guards; one that is too many is told so and gone.
func (l *listener) admit(conn net.Conn) net.Conn {
	leave := l.server.connections.enter(conn.RemoteAddr())
	if leave != nil {
		return &clientConn{stallConn{Conn: conn, silence: silence{limit: SilenceLimit}}, leave}
	}
	_, _ = conn.Write(refusal) // it fits into the buffer of a new connection
	conn.Close()
	if !l.server.connections.isQuiet() {
		l.server.log.Warn("refused a connection: there are too many", slog.String("client", conn.RemoteAddr().String()))
	}
	return nil
}

// Close ends Accept too when it waits.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// clientConn is counted until it is closed.
type clientConn struct {
	stallConn
	leave func()
}

func (c *clientConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
