// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestASilentBodyIsGivenUp(t *testing.T) {
	w := newImpatientWorld(t, nil, 200*time.Millisecond)
	e := newExecd(t, nil)
	w.configure(nil)
	w.put(e, nil)
	sink := newApp(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	for _, path := range []string{"/v1/sandboxes", proxyPath(execdPort, "/files"), proxyPath(sink, "/"), "/sandboxes/none/proxy/80", "/status.ok"} {
		for _, length := range []string{"Content-Length: 100", "Content-Length: 1000000", "Transfer-Encoding: chunked"} {
			conn, err := net.Dial("tcp", w.address)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\n"+length+"\r\n\r\n1")
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			if back, err := io.ReadAll(conn); isTimeout(err) {
				t.Errorf("%s with %s is still open after %q", path, length, back)
			}
			conn.Close()
		}
	}
}

func (c *connections) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

func TestALongAnswerToABodyIsNotCut(t *testing.T) {
	const limit = 200 * time.Millisecond
	w := newImpatientWorld(t, nil, limit)
	e := newExecd(t, nil)
	w.configure(nil)
	w.put(e, nil)
	drip := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for range 8 {
			time.Sleep(limit / 3)
			io.WriteString(rw, "x")
			rw.(http.Flusher).Flush()
		}
	})
	for _, body := range []io.Reader{strings.NewReader("small"), strings.NewReader(strings.Repeat("x", 2*smallBody)), io.MultiReader(strings.NewReader("chunked"))} {
		if got := w.doBody("POST", proxyPath(drip, "/"), body); got.body != "xxxxxxxx" {
			t.Errorf("got %q", got.body)
		}
	}
}

func TestAConnectionTooManyIsToldSo(t *testing.T) {
	w, _ := standard(t, nil)
	w.server.SetLimits(Limits{Connections: 2})
	var held []net.Conn
	for range 2 {
		conn, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET /status.ok HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	if back := w.raw(""); !strings.HasPrefix(back, "HTTP/1.1 503") || !strings.Contains(back, `"code":"`+codeTooManyConnections+`"`) {
		t.Errorf("got %q", back)
	}
	held[0].Close()
	for w.server.connections.open() > 1 {
		time.Sleep(time.Millisecond)
	}
	w.do("GET", "/status.ok").want(t, 200, "")
}

func TestOnePeerCannotTakeAllConnections(t *testing.T) {
	c := &connections{limits: Limits{Connections: 6, PerPeer: 2}}
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	first := c.enter(at("192.0.2.1"))
	if first == nil || c.enter(at("192.0.2.1")) == nil {
		t.Error("refused below the limit")
	}
	if c.enter(at("192.0.2.1")) != nil || c.enter(at("::ffff:192.0.2.1")) != nil {
		t.Error("a third one")
	}
	if c.enter(at("192.0.2.2")) == nil || c.enter(at("2001:db8::1")) == nil || c.enter(at("2001:db8::2")) == nil {
		t.Error("another peer is refused")
	}
	if c.enter(at("2001:db8::3")) != nil {
		t.Error("a third one of the same network")
	}
	first()
	first()
	if c.open() != 4 || c.enter(at("192.0.2.1")) == nil {
		t.Error("one that has left is still counted, or counted out twice")
	}
	c.limits.Connections = 100
	for range 20 { // a proxy on this machine, or the programs on it
		if c.enter(at("127.0.0.1")) == nil || c.enter(at("::1")) == nil || c.enter(&net.UnixAddr{}) == nil {
			t.Fatal("this machine is refused")
		}
	}
}

func TestLimitsFitTheDescriptors(t *testing.T) {
	for descriptors, want := range map[uint64]Limits{
		0: {16, 8}, 1024: {384, 192}, 4096: {1920, 960}, 1 << 20: {65536, 32768}, 1 << 63: {65536, 32768},
	} {
		if got := LimitsFor(Limits{}, descriptors); got != want {
			t.Errorf("%d: %+v", descriptors, got)
		}
	}
	if got := LimitsFor(Limits{Connections: 10, PerPeer: 10}, 1024); got != (Limits{10, 10}) {
		t.Errorf("got %+v", got)
	}
}
