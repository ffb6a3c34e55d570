// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"
)

// dialTimeout bounds a connect on loopback, which only waits when the application's accept queue is full.
const dialTimeout = 10 * time.Second

// loopbackHosts are the names a client may give to what listens in the sandbox, with the addresses tried
// for each in turn. Programs that listen on "localhost" are often found at ::1 only.
var loopbackHosts = map[string][]string{
	"127.0.0.1": {"127.0.0.1", "::1"},
	"localhost": {"127.0.0.1", "::1"},
	"::1":       {"::1"},
}

// dialLoopback connects to what listens on port. Names are never looked up: the answer could lead
// elsewhere.
func dialLoopback(ctx context.Context, host string, port uint16) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	var refused error
	for _, address := range loopbackHosts[host] {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
		if err == nil {
			return conn, nil
		}
		if refused == nil {
			refused = err
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return nil, refused
}

// parsePort reads a port a program can listen on.
func parsePort(text string) (uint16, bool) {
	port, err := strconv.ParseUint(text, 10, 16)
	return uint16(port), err == nil && port > 0
}
