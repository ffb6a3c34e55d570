// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/coder/websocket"
)

const (
	tunnelBuffer  = 32 << 10
	maxTunnelText = 1 << 10 // of a text message, which has one word to say
)

// endOfTunnel is the text message of a side that sends no more bytes.
const endOfTunnel = `{"type":"eof"}`

var errTunnelMessage = errors.New(`a text message must be ` + endOfTunnel)

func (s *Server) portRoutes(route func(string, handler)) {
	route("GET /ports/{port}/tunnel", s.tunnelPort)
}

// tunnelPort makes the request a WebSocket that carries one connection to a port of the sandbox, for
// clients that cannot send CONNECT. There are no pings: a side that does not read must not be taken
// for a dead one. When the client goes away the connection to the application is closed.
func (s *Server) tunnelPort(w http.ResponseWriter, r *http.Request) error {
	port, isPort := parsePort(r.PathValue("port"))
	if !isPort {
		return failf(http.StatusBadRequest, CodeInvalidBody, "a port is a number from 1 to 65535, not %q", r.PathValue("port"))
	}
	if err := checkHandshake(w, r); err != nil {
		return err
	}
	ctx, end := s.connections.begin(r.Context())
	defer end()
	app, err := dialLoopback(ctx, "localhost", port)
	if err != nil {
		return failf(http.StatusBadGateway, CodeRuntime, "nothing answers at port %d: %v", port, err)
	}
	defer app.Close()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil // Accept has answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1) // messages are not held, they pass through a buffer
	newPortTunnel(conn, app).run(ctx)
	return nil
}

// portTunnel is one connection to an application, carried by a WebSocket.
type portTunnel struct {
	conn        *websocket.Conn
	app         net.Conn
	clientEnded chan struct{} // closed when the client has said that it sends no more
}

func newPortTunnel(conn *websocket.Conn, app net.Conn) *portTunnel {
	return &portTunnel{conn: conn, app: app, clientEnded: make(chan struct{})}
}

// run carries bytes both ways until both sides have ended, one breaks or ctx ends.
func (t *portTunnel) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { t.app.Close() })
	defer stop()
	var listening sync.WaitGroup
	listening.Go(func() {
		defer cancel()
		t.listen(ctx)
	})
	if code, reason := t.sendOutput(ctx); code != 0 {
		_ = t.conn.Close(code, reason) // listen reads the answer
	}
	cancel()
	listening.Wait()
}

// listen gives the application what the client sends, and goes on reading after the client's end:
// that is how it hears that the client has gone.
func (t *portTunnel) listen(ctx context.Context) {
	buffer := make([]byte, tunnelBuffer)
	for {
		kind, message, err := t.conn.Reader(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			// Without WriteTo and ReadFrom, which would bring buffers of their own.
			_, err = io.CopyBuffer(struct{ io.Writer }{t.app}, struct{ io.Reader }{message}, buffer)
		} else if err = t.readEnd(message); err != nil {
			_ = t.conn.Close(websocket.StatusUnsupportedData, err.Error())
		}
		if err != nil {
			return
		}
	}
}

func (t *portTunnel) readEnd(message io.Reader) error {
	var word struct {
		Type string `json:"type"`
	}
	text, err := io.ReadAll(io.LimitReader(message, maxTunnelText))
	if err != nil {
		return err
	}
	if json.Unmarshal(text, &word) != nil || word.Type != "eof" {
		return errTunnelMessage
	}
	select {
	case <-t.clientEnded:
		return nil // it says so again
	default:
	}
	close(t.clientEnded)
	return closeWrite(t.app)
}

// sendOutput sends what the application says, and at last that it has ended. It returns how to close the
// connection: 0 when it is broken.
func (t *portTunnel) sendOutput(ctx context.Context) (websocket.StatusCode, string) {
	buffer := make([]byte, tunnelBuffer)
	for {
		n, err := t.app.Read(buffer)
		if n > 0 && t.conn.Write(ctx, websocket.MessageBinary, buffer[:n]) != nil {
			return 0, ""
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return websocket.StatusInternalError, fmt.Sprintf("the application broke the connection: %.80v", err)
		}
	}
	if t.conn.Write(ctx, websocket.MessageText, []byte(endOfTunnel)) != nil {
		return 0, ""
	}
	select {
	case <-t.clientEnded:
		return websocket.StatusNormalClosure, "both sides have ended"
	case <-ctx.Done():
		return 0, ""
	}
}
