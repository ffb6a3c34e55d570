// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// acceptSuffix is the constant of RFC 6455 that turns a key into its answer.
const acceptSuffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

var errRefused = errors.New("the application did not accept the WebSocket")

// isWebSocket says that the request asks for a WebSocket. Other upgrades are not passed on.
func isWebSocket(r *http.Request) bool {
	return r.Method == http.MethodGet && len(r.Header["Upgrade"]) > 0 &&
		hasToken(r.Header["Upgrade"], "websocket") && hasToken(r.Header["Connection"], "upgrade")
}

func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + acceptSuffix))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// serveWebSocket connects the client's WebSocket with the application's. Frames pass as they are, so
// subprotocols and extensions are between those two; only close frames are read.
func (x *exchange) serveWebSocket(denied *apiError) {
	if key := x.r.Header.Get("Sec-Websocket-Key"); key == "" || x.r.Header.Get("Sec-Websocket-Version") != "13" {
		x.w.Header().Set("Sec-WebSocket-Version", "13")
		x.fail(&apiError{http.StatusBadRequest, codeBadRoute, "not a WebSocket handshake of version 13"})
		return
	}
	ctx, end := x.server.sockets.begin(x.r.Context())
	defer end()
	if denied != nil {
		x.refuseWebSocket(ctx, denied)
		return
	}
	defer x.server.streams.webSockets.begin()()
	x.touch()
	backend, response, err := x.dialWebSocket(ctx)
	switch {
	case errors.Is(err, errRefused):
		defer backend.Close()
		x.refusedByBackend(ctx, response)
	case err != nil:
		x.server.log.LogAttrs(ctx, slog.LevelDebug, "the sandbox does not answer", x.attrs(err)...)
		x.refuseWebSocket(ctx, backendError(err))
	default:
		defer backend.Close()
		x.relayWebSocket(ctx, backend, response)
	}
}

// dialWebSocket makes the handshake. With errRefused the response and the connection are usable.
func (x *exchange) dialWebSocket(ctx context.Context) (*peer, *http.Response, error) {
	conn, err := x.sandbox.link.dial(ctx, x.port)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	out := x.outgoing()
	out.Body, out.ContentLength = nil, 0
	out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
	response, early, err := handshake(conn, out)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols || !hasToken(response.Header["Upgrade"], "websocket") ||
		response.Header.Get("Sec-Websocket-Accept") != acceptKey(x.r.Header.Get("Sec-Websocket-Key")) {
		return &peer{Conn: conn}, response, errRefused
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, nil, err
	}
	raw := &stallConn{Conn: conn.Conn, silence: silence{limit: conn.silence.limit}}
	return &peer{raw, append(early, conn.early...)}, response, nil
}

// handshake writes the request and reads the head of the response, which is bounded, and what came
// with it.
func handshake(conn net.Conn, out *http.Request) (response *http.Response, early []byte, err error) {
	if err := out.Write(conn); err != nil {
		return nil, nil, err
	}
	reader := bufio.NewReader(&io.LimitedReader{R: conn, N: maxHeaderBytes})
	if response, err = http.ReadResponse(reader, out); err != nil {
		return nil, nil, err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		early, _ = reader.Peek(reader.Buffered())
	}
	return response, early, nil
}

// refuseWebSocket says no. On the server proxy the handshake is accepted and closed at once, because
// that is what a browser's script can see.
func (x *exchange) refuseWebSocket(ctx context.Context, err *apiError) {
	if x.form != byPath {
		x.fail(err)
		return
	}
	code := closeInternal
	if err.Status == http.StatusUnauthorized {
		code = closePolicy
	}
	x.acceptAndClose(ctx, code, err.Message)
}

// refusedByBackend passes on why the application refused, where the contract lets us.
func (x *exchange) refusedByBackend(ctx context.Context, response *http.Response) {
	defer response.Body.Close()
	switch {
	case x.form == byPath:
		x.acceptAndClose(ctx, closePolicy, "the application refused the WebSocket")
	case response.StatusCode < http.StatusOK:
		x.fail(backendError(errNotAsked))
	default:
		x.respond(response)
	}
}

func (x *exchange) acceptAndClose(ctx context.Context, code int, reason string) {
	if offered := x.r.Header.Get("Sec-Websocket-Protocol"); offered != "" {
		// Browsers give up, without a code, when none of what they offered is chosen.
		first, _, _ := strings.Cut(offered, ",")
		x.w.Header()["Sec-Websocket-Protocol"] = []string{strings.TrimSpace(first)}
	}
	client, err := x.acceptWebSocket()
	if err != nil {
		return
	}
	defer client.Close()
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	if _, err := client.Write(closeFrame(code, []byte(reason), false)); err == nil {
		awaitClose(client)
	}
}

// awaitClose reads up to the client's own close frame: a connection that is closed with unread bytes
// may take our frame with it.
func awaitClose(client *peer) {
	_ = client.SetReadDeadline(time.Now().Add(closeGrace))
	reader := bufio.NewReader(io.LimitReader(client, maxHeaderBytes))
	var head frameHead
	for head.read(reader) == nil && head.opcode != opClose {
		if _, err := io.CopyN(io.Discard, reader, int64(head.payload)); err != nil {
			return
		}
	}
}

// acceptWebSocket takes the connection over and writes the answer to the handshake, with what is in
// the response's header.
func (x *exchange) acceptWebSocket() (*peer, error) {
	conn, buffered, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.fail(&apiError{http.StatusInternalServerError, codeResponseFailed, "this connection cannot become a WebSocket"})
		return nil, err
	}
	x.status = http.StatusSwitchingProtocols
	var head strings.Builder
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
	head.WriteString("Sec-WebSocket-Accept: " + acceptKey(x.r.Header.Get("Sec-Websocket-Key")) + "\r\n")
	_ = x.w.Header().Write(&head) // memory
	head.WriteString("\r\n")
	if _, err := io.WriteString(conn, head.String()); err != nil {
		conn.Close()
		return nil, err
	}
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	return &peer{conn, early}, nil
}
