// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAMaliciousExecdHarmsOnlyItsOwnAnswers gives ingress an execd that has been taken over. What the
// client sees may be an error or a cut answer; ingress must stay small and serve others.
func TestAMaliciousExecdHarmsOnlyItsOwnAnswers(t *testing.T) {
	w := newImpatientWorld(t, nil, 300*time.Millisecond)
	w.configure(nil)
	flood := func(c net.Conn, text string) { // until we are cut off
		for range 1 << 16 {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
	for name, speak := range map[string]func(net.Conn){
		"endless headers": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			flood(c, "X: "+strings.Repeat("x", 1000)+"\r\n")
		},
		"an endless header": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "); flood(c, strings.Repeat("x", 1000)) },
		"a flood of 1xx":    func(c net.Conn) { flood(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n") },
		"a flood of 100":    func(c net.Conn) { flood(c, "HTTP/1.1 100 Continue\r\n\r\n") },
		"an early 101": func(c net.Conn) {
			flood(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		},
		"a short body": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx") },
		"two lengths": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx")
		},
		"a negative length": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx") },
		"a huge chunk": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFF\r\nx")
		},
		"a chunk size's end": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
			flood(c, "xxxxxxxx")
		},
		"endless trailers": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
			flood(c, "X: "+strings.Repeat("x", 1000)+"\r\n")
		},
		"a trickled head":   func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "); time.Sleep(time.Second) },
		"nothing":           func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"an unknown coding": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx") },
		"a header's new line": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b=c\r\nContent-Length: 0\r\n\r\n")
		},
	} {
		socket := filepath.Join(w.dir, "evil.sock")
		stop := rawUnix(t, socket, func(c net.Conn) { readHead(c); speak(c) })
		w.put(&execdStandIn{socket: socket}, nil)
		for _, port := range []int{execdPort, 8000} {
			back := w.raw(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: h\r\nX-EXECD-ACCESS-TOKEN: %s\r\nConnection: close\r\n\r\n", proxyPath(port, "/x"), testToken))
			if len(back) > 1<<20 || strings.Contains(back, "b=c\r\n") && strings.Contains(back, "\nSet-Cookie") {
				t.Errorf("%s at port %d: %.300q", name, port, back)
			}
		}
		stop()
		w.do("GET", "/status.ok").want(t, 200, "")
	}
}

// rawUnix is rawApp on a unix socket that is gone when it is stopped.
func rawUnix(t *testing.T, path string, speak func(net.Conn)) (stop func()) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			speak(conn)
			conn.Close()
		}
	}()
	return func() {
		listener.Close()
		<-ended
	}
}

func TestOddRequestsHaveOneMeaningOrAreRefused(t *testing.T) {
	w, _ := standard(t, nil)
	for name, c := range map[string]struct{ request, want string }{
		"absolute form to the API":       {"GET http://h/v1/x HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n", "api /v1/x"},
		"absolute form names a sandbox":  {"GET http://" + testID + "-44772.localhost/ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", codeNoAccess},
		"a host with a port and a dot":   {"GET /ping HTTP/1.1\r\nHost: " + testID + "-44772.LOCALHOST.:8080\r\nConnection: close\r\n\r\n", codeNoAccess},
		"a host that only ends the same": {"GET /v1/x HTTP/1.1\r\nHost: " + testID + "-44772.notlocalhost\r\nConnection: close\r\n\r\n", "api /v1/x"},
		"a host with a space":            {"GET /v1/x HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n", "HTTP/1.1 400"},
		"pipelined":                      {"GET /v1/a HTTP/1.1\r\nHost: h\r\n\r\nGET /v1/b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "api /v1/b"},
		"a star":                         {"OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "HTTP/1.1"},
	} {
		if back := w.raw(c.request); !strings.Contains(back, c.want) {
			t.Errorf("%s: %.300q", name, back)
		}
	}
}
