// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// dialSocket opens a WebSocket to ingress.
func (w *world) dialSocket(path string, options *websocket.DialOptions, headers ...string) (*websocket.Conn, *http.Response, error) {
	w.t.Helper()
	if options == nil {
		options = new(websocket.DialOptions)
	}
	options.HTTPClient = w.client
	options.HTTPHeader = http.Header{}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			options.Host = headers[i+1]
			continue
		}
		options.HTTPHeader.Add(headers[i], headers[i+1])
	}
	conn, response, err := websocket.Dial(testContext(w.t), "ws://"+w.address+path, options)
	if conn != nil {
		conn.SetReadLimit(-1)
		w.t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, response, err
}

func (w *world) mustDialSocket(path string, options *websocket.DialOptions, headers ...string) *websocket.Conn {
	w.t.Helper()
	conn, _, err := w.dialSocket(path, options, headers...)
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// testContext bounds what would otherwise hang.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// socketApp serves one WebSocket after another with serve.
func socketApp(t *testing.T, options *websocket.AcceptOptions, serve func(*websocket.Conn)) http.HandlerFunc {
	if options == nil {
		options = &websocket.AcceptOptions{}
	}
	options.InsecureSkipVerify = true
	return func(rw http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(rw, r, options)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(-1)
		serve(conn)
	}
}

func echo(t *testing.T) func(*websocket.Conn) {
	return func(conn *websocket.Conn) {
		for {
			kind, message, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			if conn.Write(context.Background(), kind, message) != nil {
				return
			}
		}
	}
}

func closedWith(t *testing.T, conn *websocket.Conn) (websocket.StatusCode, string) {
	t.Helper()
	_, _, err := conn.Read(testContext(t))
	var e websocket.CloseError
	if !errors.As(err, &e) {
		t.Fatalf("no close frame: %v", err)
	}
	return e.Code, e.Reason
}

func TestAWebSocketCarriesMessagesByEveryForm(t *testing.T) {
	app := socketApp(t, &websocket.AcceptOptions{CompressionMode: websocket.CompressionContextTakeover}, echo(t))
	w, _ := standard(t, app)
	port := newApp(t, app)
	name := testID + "-" + strconv.Itoa(port)
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for _, c := range [][]string{
		{proxyPath(port, "/ws")}, {"/" + testID + "/" + strconv.Itoa(port) + "/ws"}, {"/ws", "Host", name + ".localhost"},
		{"/ws", "OpenSandbox-Ingress-To", name}, {proxyPath(execdPort, "/pty"), "X-EXECD-ACCESS-TOKEN", testToken},
	} {
		for _, compression := range []websocket.CompressionMode{websocket.CompressionDisabled, websocket.CompressionContextTakeover} {
			conn := w.mustDialSocket(c[0], &websocket.DialOptions{CompressionMode: compression}, c[1:]...)
			for _, m := range []struct {
				kind websocket.MessageType
				data []byte
			}{{websocket.MessageText, []byte("hello")}, {websocket.MessageBinary, []byte{0, 1, 2}}, {websocket.MessageText, nil}, {websocket.MessageBinary, large}} {
				if err := conn.Write(testContext(t), m.kind, m.data); err != nil {
					t.Fatal(err)
				}
				kind, data, err := conn.Read(testContext(t))
				if err != nil || kind != m.kind || !bytes.Equal(data, m.data) {
					t.Fatalf("%v: %v, %d bytes of %d, %v", c, kind, len(data), len(m.data), err)
				}
			}
			ctx := conn.CloseRead(testContext(t)) // reads the answer to the ping
			if err := conn.Ping(ctx); err != nil {
				t.Error(err)
			}
			if err := conn.Close(websocket.StatusNormalClosure, "bye"); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestSubprotocolAndOriginAreNegotiatedWithTheApplication(t *testing.T) {
	w, _ := standard(t, nil)
	origin := make(chan string, 1)
	accept := socketApp(t, &websocket.AcceptOptions{Subprotocols: []string{"v2"}}, echo(t))
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		origin <- r.Header.Get("Origin")
		accept(rw, r)
	})
	conn := w.mustDialSocket(proxyPath(port, "/"), &websocket.DialOptions{Subprotocols: []string{"v1", "v2"}}, "Origin", "http://page")
	if conn.Subprotocol() != "v2" || <-origin != "http://page" {
		t.Errorf("subprotocol %q", conn.Subprotocol())
	}
}

func TestTheApplicationsCloseCodeReachesTheClient(t *testing.T) {
	w, _ := standard(t, nil)
	for frame, want := range map[string]websocket.StatusCode{
		"\x88\x05\x03\xe8bye": 1000, "\x88\x05\x0f\xa1bye": 4001, "\x88\x05\x03\xf1bye": 1009,
		"\x88\x00":                   1000, // none
		"\x88\x05\x03\xedbye":        1011, // 1005 must not be sent
		"\x88\x05\x03\xf7bye":        1011, // 1015
		"\x88\x05\x00\x01bye":        1011,
		"\x88\x05\x13\x88bye":        1011, // 5000
		"":                           1011, // gone without a word
		"\x88\x01\x03":               1002, // not a close frame
		"\x08\x02\x03\xe8":           1002, // a control frame in parts
		"\x88\x7e\x00\x80":           1002, // too long for a control frame
		"\x81\x02hi\x88\x02\x0b\xb8": 3000,
	} {
		port := rawApp(t, func(c net.Conn) {
			r := readHead(c)
			acceptRaw(c, r, "")
			io.WriteString(c, frame)
			if frame != "" {
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				_, _ = io.Copy(io.Discard, c)
			}
		})
		conn := w.mustDialSocket(proxyPath(port, "/"), nil)
		if strings.HasPrefix(frame, "\x81") {
			if _, data, err := conn.Read(testContext(t)); err != nil || string(data) != "hi" {
				t.Errorf("%q: %q %v", frame, data, err)
			}
		}
		if code, _ := closedWith(t, conn); code != want {
			t.Errorf("%q: closed with %d, want %d", frame, code, want)
		}
	}
}

func acceptRaw(c net.Conn, r *http.Request, headers string) {
	io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
		acceptKey(r.Header.Get("Sec-Websocket-Key"))+"\r\n"+headers+"\r\n")
}

func TestTheClientsCloseReachesTheApplication(t *testing.T) {
	w, _ := standard(t, nil)
	closes := make(chan websocket.StatusCode, 1)
	port := newApp(t, socketApp(t, nil, func(conn *websocket.Conn) {
		_, _, err := conn.Read(context.Background())
		closes <- websocket.CloseStatus(err)
	}))
	handshake := "GET " + proxyPath(port, "/") + " HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	for frame, want := range map[string]websocket.StatusCode{
		"\x88\x82\x00\x00\x00\x00\x0f\xa1": 4001,
		"\x88\x82\x01\x02\x03\x04\x0e\xa3": 4001, // masked
		"\x88\x80\x00\x00\x00\x00":         1000, // none
		"":                                 1001, // gone without a word
		"\x88\x82\x00\x00\x00\x00\x03\xee": 1002, // 1006 must not be sent
		"\x89\x80\x00\x00\x00\x00\x88\x80\x00\x00\x00\x00": 1000, // after a ping
	} {
		conn, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, handshake+frame) // together: the frame comes with the handshake
		if frame == "" {
			buffer := make([]byte, 12)
			_, _ = io.ReadFull(conn, buffer) // the answer, so that the other side is there
			conn.Close()
		}
		if got := <-closes; got != want {
			t.Errorf("%q: the application saw %d, want %d", frame, got, want)
		}
		conn.Close()
	}
}

func TestAWebSocketThatCannotBeIsAcceptedAndClosed(t *testing.T) {
	w, e := standard(t, nil)
	refusing := newApp(t, func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no", http.StatusForbidden) })
	lying := rawApp(t, func(c net.Conn) {
		readHead(c)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n\r\n")
	})
	check := func(path string, want websocket.StatusCode, headers ...string) {
		t.Helper()
		conn := w.mustDialSocket(path, &websocket.DialOptions{Subprotocols: []string{"a", "b"}}, headers...)
		if code, reason := closedWith(t, conn); code != want || reason == "" {
			t.Errorf("%s: closed with %d %q, want %d", path, code, reason, want)
		}
		if conn.Subprotocol() != "a" {
			t.Errorf("subprotocol %q: browsers would not tell the code", conn.Subprotocol())
		}
	}
	check("/sandboxes/"+strings.Replace(testID, "0", "1", 1)+"/proxy/80", 1011)
	check(proxyPath(1, "/"), 1011)
	check(proxyPath(refusing, "/"), 1008)
	check(proxyPath(lying, "/"), 1008)
	check(proxyPath(execdPort, "/pty"), 1008)
	check(proxyPath(execdPort, "/pty"), 1008, "X-EXECD-ACCESS-TOKEN", "wrong")
	w.put(e, map[string]any{"secureToken": testSecure})
	check(proxyPath(8080, "/"), 1008)
	w.configure(map[string]any{"multiTenant": true})
	check(proxyPath(8080, "/"), 1008, "OpenSandbox-Secure-Access", testSecure)
	w.configure(nil)
	w.put(e, map[string]any{"state": "paused"})
	check(proxyPath(8080, "/"), 1011)
}

func TestGatewayRoutesAnswerAFailedHandshakeWithAStatus(t *testing.T) {
	w, _ := standard(t, nil)
	refusing := newApp(t, func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no", http.StatusForbidden) })
	for port, want := range map[int]int{refusing: 403, 1: 502, execdPort: 401} {
		_, response, err := w.dialSocket("/", nil, "Host", testID+"-"+strconv.Itoa(port)+".localhost")
		if err == nil || response == nil || response.StatusCode != want {
			t.Errorf("port %d: %v %v", port, response, err)
		}
	}
}

func TestAHandshakeThatIsNoneIsRefused(t *testing.T) {
	w, _ := standard(t, nil)
	head := "GET " + proxyPath(8080, "/") + " HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n"
	for _, rest := range []string{"", "Sec-WebSocket-Key: x\r\n", "Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 8\r\n"} {
		if back := w.raw(head + rest + "\r\n"); !strings.HasPrefix(back, "HTTP/1.1 400") {
			t.Errorf("%q: %s", rest, back)
		}
	}
}

func TestOtherUpgradesAreNotPassedOn(t *testing.T) {
	w, _ := standard(t, nil)
	var app seen
	port := newApp(t, app.handler)
	back := w.raw("GET " + proxyPath(port, "/") + " HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\r\n")
	if !strings.HasPrefix(back, "HTTP/1.1 200") {
		t.Errorf("got %s", back)
	}
	checkHeaders(t, app.take().Header, nil, "Upgrade", "HTTP2-Settings", "Connection")
}

func TestAPartOfAFrameIsNotHeldBack(t *testing.T) {
	w, _ := standard(t, nil)
	next := make(chan struct{})
	port := rawApp(t, func(c net.Conn) {
		r := readHead(c)
		acceptRaw(c, r, "")
		io.WriteString(c, "\x81\x02hi\x81\x7e\x01\x00first") // a whole frame and a part of the next
		<-next
		io.WriteString(c, strings.Repeat("x", 256-5))
	})
	conn := w.mustDialSocket(proxyPath(port, "/"), nil)
	if _, data, err := conn.Read(testContext(t)); err != nil || string(data) != "hi" {
		t.Fatalf("%q %v", data, err)
	}
	_, reader, err := conn.Reader(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 5)
	if _, err := io.ReadFull(reader, part); err != nil || string(part) != "first" {
		t.Fatalf("%q %v", part, err)
	}
	close(next)
	if rest, err := io.ReadAll(reader); err != nil || len(rest) != 251 {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
}

func TestWebSocketsAreToldOfTheShutdown(t *testing.T) {
	w, _ := standard(t, nil)
	closes := make(chan websocket.StatusCode, 1)
	port := newApp(t, socketApp(t, nil, func(conn *websocket.Conn) {
		_ = conn.Write(context.Background(), websocket.MessageText, []byte("ready"))
		_, _, err := conn.Read(context.Background())
		closes <- websocket.CloseStatus(err)
	}))
	conn := w.mustDialSocket(proxyPath(port, "/"), nil)
	if _, _, err := conn.Read(testContext(t)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		w.server.CloseWebSockets()
		close(done)
	}()
	if code, _ := closedWith(t, conn); code != closeGoingAway {
		t.Errorf("the client saw %d", code)
	}
	if code := <-closes; code != closeGoingAway {
		t.Errorf("the application saw %d", code)
	}
	<-done
}
