// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// ledger writes down every request an application sees.
type ledger struct {
	mu    sync.Mutex
	lines []string
}

func (l *ledger) handler(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	line := fmt.Sprintf("%s %s body=%q", r.Method, r.URL.Path, body)
	if err != nil {
		line += " broken"
	}
	l.lines = append(l.lines, line)
}

func (l *ledger) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func TestARequestCannotHideInAnother(t *testing.T) {
	w, _ := standard(t, nil)
	const path, hidden = "{path}", "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, c := range map[string]struct{ request, want string }{
		"both lengths": {"POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" +
			"5\r\nhello\r\n0\r\n\r\n" + hidden, `POST /x body="hello"`},
		"two different lengths":  {"POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\n" + hidden, ""},
		"a signed length":        {"POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: +4\r\n\r\nbody" + hidden, ""},
		"an unknown coding":      {"POST " + path + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, ""},
		"a list of codings":      {"POST " + path + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + hidden, ""},
		"a space before colon":   {"POST " + path + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, ""},
		"a bad chunk size":       {"POST " + path + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n" + hidden, "broken"},
		"a chunk that is longer": {"POST " + path + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n" + hidden, "broken"},
		"two hosts":              {"GET " + path + " HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n" + hidden, ""},
		"no host":                {"GET " + path + " HTTP/1.1\r\n\r\n" + hidden, ""},
		"a bare return":          {"GET " + path + " HTTP/1.1\r\nHost: h\r\nX: a\rGET /hidden HTTP/1.1\r\n\r\n", ""},
		"a zero byte":            {"GET " + path + " HTTP/1.1\r\nHost: h\r\nX: a\x00b\r\n\r\n" + hidden, ""},
		"a return in the path":   {"GET " + path + "\rb" + " HTTP/1.1\r\nHost: h\r\n\r\n", ""},
		"another version":        {"GET " + path + " HTTP/9.9\r\nHost: h\r\n\r\n", ""},
	} {
		var app ledger
		port := newApp(t, app.handler)
		request := strings.Replace(c.request, path, proxyPath(port, "/x"), 1)
		back := w.raw(strings.Replace(request, "Host: h\r\n\r\n", "Host: h\r\nConnection: close\r\n\r\n", 1))
		seen := strings.Join(app.take(), " + ")
		if strings.Contains(seen, "/hidden") || strings.Contains(seen, " + ") {
			t.Errorf("%s: the application saw %s", name, seen)
		}
		switch c.want {
		case "":
			if !strings.HasPrefix(back, "HTTP/1.1 4") && !strings.HasPrefix(back, "HTTP/1.1 5") || seen != "" {
				t.Errorf("%s: %q, the application saw %q", name, back, seen)
			}
		case "broken":
			if !strings.HasPrefix(back, "HTTP/1.1 400") || seen != "" && !strings.HasSuffix(seen, "broken") {
				t.Errorf("%s: %q, the application saw %q", name, back, seen)
			}
		default:
			if seen != c.want {
				t.Errorf("%s: the application saw %q, want %q", name, seen, c.want)
			}
		}
	}
}

func TestAFoldedHeaderIsOneLineOrRefused(t *testing.T) {
	w, _ := standard(t, nil)
	var app seen
	port := newApp(t, app.handler)
	w.raw("GET " + proxyPath(port, "/") + " HTTP/1.1\r\nHost: h\r\nX-Folded: a\r\n X-EXECD-ACCESS-TOKEN: x\r\nConnection: close\r\n\r\n")
	if got := app.take(); got != nil {
		checkHeaders(t, got.Header, map[string]string{"X-Folded": "a X-EXECD-ACCESS-TOKEN: x"}, "X-EXECD-ACCESS-TOKEN")
	}
}

func TestAResponseCannotHideAnother(t *testing.T) {
	w, _ := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		if r.URL.Path == "/extra" {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nclean")
	})
	for range 5 {
		if got := w.do("GET", proxyPath(port, "/extra")); got.body != "ok" {
			t.Fatalf("got %q", got.body)
		}
		if got := w.do("GET", proxyPath(port, "/next")); got.StatusCode == 200 && got.body != "clean" {
			t.Fatalf("got %q", got.body)
		}
	}
}

func TestALargeHeadIsRefused(t *testing.T) {
	w, _ := standard(t, nil)
	if back := w.raw("GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n"); !strings.HasPrefix(back, "HTTP/1.1 431") {
		t.Errorf("got %.60q", back)
	}
}

func TestTraversalReachesNeitherTheAPINorExecd(t *testing.T) {
	var execd seen
	w, _ := standard(t, execd.handler)
	for _, rest := range []string{"/../../../v1/sandboxes", "/%2e%2e/%2e%2e/%2e%2e/health", "/..%2f..%2finternal/init", "/internal/init", "//internal/init", "/%69nternal/init"} {
		back := w.raw("GET " + proxyPath(execdPort, rest) + " HTTP/1.1\r\nHost: h\r\nX-EXECD-ACCESS-TOKEN: " + testToken + "\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(back, "HTTP/1.1 40") {
			t.Errorf("%s: %s", rest, back)
		}
		if r := execd.take(); r != nil {
			t.Errorf("%s reached execd as %s", rest, r.RequestURI)
		}
	}
}
