// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// portTunnelTo opens a tunnel over a WebSocket to a port of the sandbox.
func (d *daemon) portTunnelTo(port string, headers ...string) (*websocket.Conn, context.Context, error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	d.t.Cleanup(cancel)
	head := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		head.Set(headers[i], headers[i+1])
	}
	conn, _, err := websocket.Dial(ctx, "ws://"+d.addr+"/ports/"+port+"/tunnel", &websocket.DialOptions{HTTPClient: d.client, HTTPHeader: head})
	if err == nil {
		d.t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, ctx, err
}

// receive collects bytes until the other side's end and returns what closed the connection before it.
func receive(ctx context.Context, conn *websocket.Conn) (all []byte, err error) {
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil || kind == websocket.MessageText {
			return all, err
		}
		all = append(all, message...)
	}
}

func TestAPortTunnelCarriesBytesAndTheEndOfEachDirection(t *testing.T) {
	d := startDaemon(t, "")
	port := startRaw(t, func(app halfConn) {
		all, _ := io.ReadAll(app) // ends when the client has ended, though it still listens
		_, _ = app.Write(bytes.ToUpper(all))
		_ = app.CloseWrite()
	})
	conn, ctx, err := d.portTunnelTo(port)
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB in one message: more than any buffer
	if err := conn.Write(ctx, websocket.MessageBinary, sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(ctx, websocket.MessageText, []byte(endOfTunnel)); err != nil {
		t.Fatal(err)
	}
	got, err := receive(ctx, conn)
	if err != nil || !bytes.Equal(got, bytes.ToUpper(sent)) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("got %v", err)
	}
}

func TestTheApplicationOfAPortTunnelMayEndFirst(t *testing.T) {
	d := startDaemon(t, "")
	got := make(chan string, 1)
	port := startRaw(t, func(app halfConn) {
		_, _ = io.WriteString(app, "bye")
		_ = app.CloseWrite()
		all, _ := io.ReadAll(app)
		got <- string(all)
	})
	conn, ctx, err := d.portTunnelTo(port)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := receive(ctx, conn); err != nil || string(text) != "bye" {
		t.Fatalf("got %q, %v", text, err)
	}
	_ = conn.Write(ctx, websocket.MessageBinary, []byte("still sending"))
	_ = conn.Write(ctx, websocket.MessageText, []byte(endOfTunnel))
	if text := <-got; text != "still sending" {
		t.Errorf("the application got %q", text)
	}
}

func TestAnApplicationHearsThatTheClientOfAPortTunnelHasGone(t *testing.T) {
	d := startDaemon(t, "")
	gone := make(chan error, 1)
	port := startRaw(t, func(app halfConn) {
		_, _ = io.WriteString(app, "hello")
		_, err := io.ReadAll(app)
		gone <- err
	})
	conn, ctx, err := d.portTunnelTo(port)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.Read(ctx); err != nil {
		t.Fatal(err)
	}
	_ = conn.CloseNow()
	select {
	case <-gone:
	case <-time.After(testTimeout):
		t.Fatal("the application still waits")
	}
}

func TestABrokenApplicationIsToldToTheClientOfAPortTunnel(t *testing.T) {
	d := startDaemon(t, "")
	port := startRaw(t, func(app halfConn) {
		_, _ = app.Read(make([]byte, 1))
		_ = app.(*net.TCPConn).SetLinger(0) // closing is then a reset
	})
	conn, ctx, err := d.portTunnelTo(port)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Write(ctx, websocket.MessageBinary, []byte("x"))
	if _, err := receive(ctx, conn); websocket.CloseStatus(err) != websocket.StatusInternalError {
		t.Errorf("got %v", err)
	}
}

func TestAnUnknownWordEndsAPortTunnel(t *testing.T) {
	d := startDaemon(t, "")
	port := startRaw(t, func(app halfConn) { _, _ = io.ReadAll(app) })
	for _, word := range []string{"", "eof", `{"type":"ping"}`, "[]"} {
		conn, ctx, err := d.portTunnelTo(port)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Write(ctx, websocket.MessageText, []byte(word))
		if _, err := receive(ctx, conn); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
			t.Errorf("%q: got %v", word, err)
		}
	}
}

func TestAPortTunnelIsRefusedBeforeTheUpgrade(t *testing.T) {
	d := startDaemon(t, "")
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}
	for _, port := range []string{"0", "65536", "x", "-1", "80%20", "127.0.0.1:80"} {
		response, text := d.call("GET", "/ports/"+port+"/tunnel", "", upgrade...)
		wantError(t, port, response, text, http.StatusBadRequest, CodeInvalidBody)
	}
	response, text := d.call("GET", "/ports/1/tunnel", "")
	wantError(t, "no upgrade", response, text, http.StatusUpgradeRequired, CodeInvalidBody)
	free := listen(t, "tcp", "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	response, text = d.call("GET", "/ports/"+port+"/tunnel", "", upgrade...)
	wantError(t, "nothing listens", response, text, http.StatusBadGateway, CodeRuntime)
}

func TestAPortTunnelNeedsTheToken(t *testing.T) {
	d := startDaemon(t, "secret")
	port := startRaw(t, func(app halfConn) { fmt.Fprint(app, "in") })
	if _, _, err := d.portTunnelTo(port); err == nil {
		t.Error("it opened without a token")
	}
	conn, ctx, err := d.portTunnelTo(port, TokenHeader, "secret")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := receive(ctx, conn); err != nil || string(text) != "in" {
		t.Errorf("got %q, %v", text, err)
	}
}
