// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// execdIdle is how long a connection to execd, the egress proxy or the API waits for the next request.
	execdIdle = 90 * time.Second
	// applicationIdle is shorter than what servers of applications wait before they hang up, so that a
	// request does not meet a connection that is just being closed.
	applicationIdle = time.Second
	// maxIdlePerPort bounds the connections kept for a burst.
	maxIdlePerPort = 128
	// maxHeaderBytes bounds the head of a message from either side.
	maxHeaderBytes = 64 << 10
	// queueFullPause is the wait before a unix socket whose queue was full is tried again.
	queueFullPause = 2 * time.Millisecond
)

// address is where something listens: exactly one of a unix socket and host:port.
type address struct{ network, place string }

func (a address) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, a.network, a.place)
		// A unix socket with a full queue refuses at once where TCP would wait.
		if err == nil || !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(queueFullPause):
		}
	}
}

// link is how requests get into one sandbox: pools of connections, and when bytes last moved on any of them.
type link struct {
	execd, egress address
	token         string
	limit         time.Duration

	toExecd, toPorts, toEgress *http.Transport
	lastTraffic                atomic.Int64 // Unix milliseconds
	reported                   int64        // the last that was reported; only the reporter touches it
}

func newLink(execd, egress address, token string, limit time.Duration) *link {
	l := &link{execd: execd, egress: egress, token: token, limit: limit}
	l.toExecd = newTransport(execdIdle, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return asConn(l.dial(ctx, execdPort))
	})
	l.toPorts = newTransport(applicationIdle, func(ctx context.Context, _, place string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(place)
		number, _ := strconv.ParseUint(port, 10, 16) // the host is one of ours: 127.0.0.1:port
		return asConn(l.dial(ctx, uint16(number)))
	})
	l.toEgress = newTransport(execdIdle, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return asConn(l.dial(ctx, egressPort))
	})
	return l
}

// asConn keeps a nil pointer from becoming an interface that is not nil.
func asConn(conn *backendConn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return conn, nil
}

type dialFunc func(ctx context.Context, network, place string) (net.Conn, error)

// newTransport speaks plain HTTP/1.1 and changes no byte of a body.
func newTransport(idle time.Duration, dial dialFunc) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxIdlePerPort,
		IdleConnTimeout:        idle,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// transport is the pool for a port.
func (l *link) transport(port uint16) *http.Transport {
	switch port {
	case execdPort:
		return l.toExecd
	case egressPort:
		return l.toEgress
	}
	return l.toPorts
}

// dial opens a connection on which whatever serves the port speaks HTTP.
func (l *link) dial(ctx context.Context, port uint16) (*backendConn, error) {
	place := l.execd
	if port == egressPort {
		place = l.egress
	}
	conn, err := place.dial(ctx)
	if err != nil {
		return nil, &dialError{err}
	}
	if port == execdPort || port == egressPort {
		return newBackendConn(conn, nil, l.limit), nil
	}
	early, err := l.tunnel(ctx, conn, port)
	if err != nil {
		conn.Close()
		return nil, &dialError{err}
	}
	return newBackendConn(conn, early, l.limit), nil
}

// tunnel asks execd at the other end of conn for the application at port. Bytes that the application
// sent at once are returned.
func (l *link) tunnel(ctx context.Context, conn net.Conn, port uint16) (early []byte, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return nil, err
	}
	place := "127.0.0.1:" + strconv.Itoa(int(port))
	head := "CONNECT " + place + " HTTP/1.1\r\nHost: " + place + "\r\n" + tokenHeader + ": " + l.token + "\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(&io.LimitedReader{R: conn, N: maxHeaderBytes})
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("tunnel: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("tunnel: execd answered %s", response.Status)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	early, _ = reader.Peek(reader.Buffered())
	return early, conn.SetDeadline(time.Time{})
}

// touch notes that bytes moved.
func (l *link) touch() { l.lastTraffic.Store(time.Now().UnixMilli()) }

// close ends the connections that wait. Those in use end with what they are used for.
func (l *link) close() {
	for _, transport := range []*http.Transport{l.toExecd, l.toPorts, l.toEgress} {
		transport.CloseIdleConnections()
	}
}

// parseAddress reads unix:///path, /path, tcp://host:port and host:port.
func parseAddress(text string) (address, error) {
	if path, ok := strings.CutPrefix(text, "unix://"); ok {
		text = path
	} else if place, ok := strings.CutPrefix(text, "tcp://"); ok {
		text = place
	}
	if strings.HasPrefix(text, "/") {
		return address{"unix", text}, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || port == "" {
		return address{}, fmt.Errorf("%q is neither a path nor host:port", text)
	}
	return address{"tcp", text}, nil
}
