// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
)

// connect makes the connection a tunnel to what listens in the sandbox. Either end may finish sending
// before the other; an end that breaks takes the other with it.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) error {
	port, isPort := parsePort(r.URL.Port())
	host := r.URL.Hostname()
	if _, isLoopback := loopbackHosts[host]; !isLoopback || !isPort {
		return failf(http.StatusBadRequest, CodeInvalidBody,
			"CONNECT goes to a port of the sandbox: 127.0.0.1:port, localhost:port or [::1]:port, not %q", r.URL.Host)
	}
	ctx, end := s.connections.begin(r.Context())
	defer end()
	app, err := dialLoopback(ctx, host, port)
	if err != nil {
		return failf(http.StatusBadGateway, CodeRuntime, "nothing answers at port %d: %v", port, err)
	}
	defer app.Close()
	client, early, err := hijack(w)
	if err != nil {
		return failf(http.StatusInternalServerError, CodeRuntime, "cannot make a tunnel of this connection: %v", err)
	}
	defer client.Close()
	relay(ctx, client, app, early)
	return nil
}

// hijack takes the connection from the server, with the bytes that came after the request's head.
func hijack(w http.ResponseWriter) (client net.Conn, early []byte, err error) {
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if waiting := buffered.Reader.Buffered(); waiting > 0 {
		early = make([]byte, waiting)
		_, _ = io.ReadFull(buffered, early) // they are in memory
	}
	return client, early, nil
}

const established = "HTTP/1.1 200 Connection Established\r\n\r\n"

// relay carries bytes both ways until both ends have finished, one breaks or ctx ends.
func relay(ctx context.Context, client, app net.Conn, early []byte) {
	hangUp := func() {
		client.Close()
		app.Close()
	}
	stop := context.AfterFunc(ctx, hangUp)
	defer stop()
	if _, err := io.WriteString(client, established); err != nil {
		return
	}
	carry := func(to, from net.Conn, first []byte) {
		if _, err := to.Write(first); err != nil {
			hangUp()
			return
		}
		if _, err := io.Copy(to, from); err != nil || closeWrite(to) != nil {
			hangUp()
		}
	}
	var both sync.WaitGroup
	both.Go(func() { carry(app, client, early) })
	both.Go(func() { carry(client, app, nil) })
	both.Wait()
}

// closeWrite tells the other side that nothing more comes.
func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.New("this connection cannot be closed in one direction")
}
