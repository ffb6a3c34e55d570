// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// seen keeps the last request that a backend got.
type seen struct {
	mu sync.Mutex
	r  *http.Request
}

func (s *seen) handler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.r = r
	s.mu.Unlock()
}

func (s *seen) take() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.r
	s.r = nil
	return r
}

// everyHeader is a request with all that must not leak, and some that must pass.
var everyHeader = []string{
	"Authorization", "Bearer app", "Cookie", "a=b", "OPEN-SANDBOX-API-KEY", testKey, "OpenSandbox-Secure-Access", "s",
	"X-EXECD-ACCESS-TOKEN", testToken, "OPENSANDBOX-EGRESS-AUTH", "e", "OPEN-SANDBOX-CLIENT-IP", "10.0.0.1",
	"Forwarded", "for=evil", "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil", "X-Forwarded-Port", "1", "X-Forwarded-Proto", "gopher",
	"X-Real-IP", "6.6.6.6", "OpenSandbox-Access-Renew", "skip", "Proxy-Authorization", "x", "TE", "trailers", "Keep-Alive", "x",
	"Connection", "X-Hop, X-Forwarded-For", "X-Hop", "1", "X-Secret-Copy", testKey, "X-Bearer-Copy", "Bearer " + testKey,
	"X_Forwarded_For", "6.6.6.6", "X_Execd_Access_Token", testToken,
	"X-Custom", "1", "Accept", "a/b", "Origin", "http://o", "Traceparent", "00-1", "X-Request-ID", "mine",
}

func checkHeaders(t *testing.T, h http.Header, kept map[string]string, dropped ...string) {
	t.Helper()
	for name, value := range kept {
		if got := strings.Join(h.Values(name), "|"); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	for _, name := range dropped {
		if values := h[http.CanonicalHeaderKey(name)]; values != nil {
			t.Errorf("%s passed as %q", name, values)
		}
	}
}

var alwaysDropped = []string{
	"OPEN-SANDBOX-API-KEY", "OpenSandbox-Secure-Access", "OPENSANDBOX-EGRESS-AUTH", "OPEN-SANDBOX-CLIENT-IP",
	"Forwarded", "X-Forwarded-Port", "X-Real-IP", "OpenSandbox-Access-Renew", "Proxy-Authorization", "TE", "Keep-Alive",
	"Connection", "X-Hop", "X-Secret-Copy", "X-Bearer-Copy", "X_Forwarded_For", "X_Execd_Access_Token", "OpenSandbox-Ingress-To", "OPEN-SANDBOX-INGRESS",
}

func TestAnApplicationGetsNoSecretOfOurs(t *testing.T) {
	w, _ := standard(t, nil)
	var app seen
	port := newApp(t, app.handler)
	place := "127.0.0.1:" + strconv.Itoa(port)
	forwarded := map[string]string{
		"X-Custom": "1", "Accept": "a/b", "Origin": "http://o", "Traceparent": "00-1", "X-Request-Id": "mine",
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http",
	}

	w.do("GET", proxyPath(port, "/x"), everyHeader...).want(t, 200, "")
	got := app.take()
	checkHeaders(t, got.Header, forwarded, append(alwaysDropped, "X-EXECD-ACCESS-TOKEN", "Authorization", "Cookie")...)
	checkHeaders(t, got.Header, map[string]string{"X-Forwarded-Host": w.address})
	if got.Host != place {
		t.Errorf("the host is %q", got.Host)
	}

	w.do("GET", "/"+testID+"/"+strconv.Itoa(port)+"/x", everyHeader...).want(t, 200, "")
	got = app.take()
	checkHeaders(t, got.Header, forwarded, append(alwaysDropped, "X-EXECD-ACCESS-TOKEN", "Cookie", "Authorization")...)

	w.configure(map[string]any{"routesByURI": true}) // that of a gateway
	w.do("GET", "/"+testID+"/"+strconv.Itoa(port)+"/x", everyHeader...).want(t, 200, "")
	got = app.take()
	checkHeaders(t, got.Header, forwarded, append(alwaysDropped, "X-EXECD-ACCESS-TOKEN", "Cookie")...)
	checkHeaders(t, got.Header, map[string]string{"Authorization": "Bearer app"})
	w.do("GET", proxyPath(port, "/x"), everyHeader...).want(t, 200, "")
	checkHeaders(t, app.take().Header, forwarded, "Authorization", "Cookie")

	name := testID + "-" + strconv.Itoa(port)
	w.do("GET", "/x", append(everyHeader, "Host", name+".localhost:8080")...).want(t, 200, "")
	got = app.take()
	checkHeaders(t, got.Header, forwarded, append(alwaysDropped, "X-EXECD-ACCESS-TOKEN")...)
	checkHeaders(t, got.Header, map[string]string{"Authorization": "Bearer app", "Cookie": "a=b", "X-Forwarded-Host": name + ".localhost:8080"})
	if got.Host != name+".localhost:8080" {
		t.Errorf("the host is %q", got.Host)
	}

	w.do("GET", "/x", append(everyHeader, "OpenSandbox-Ingress-To", name)...).want(t, 200, "")
	got = app.take()
	checkHeaders(t, got.Header, forwarded, append(alwaysDropped, "X-EXECD-ACCESS-TOKEN")...)
	checkHeaders(t, got.Header, map[string]string{"Authorization": "Bearer app", "Cookie": "a=b"})
	if got.Host != place {
		t.Errorf("the host is %q", got.Host)
	}
}

func TestExecdGetsItsTokenFromUs(t *testing.T) {
	var execd seen
	w, _ := standard(t, execd.handler)
	w.do("GET", proxyPath(execdPort, "/ping"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 200, "")
	checkHeaders(t, execd.take().Header, map[string]string{"X-EXECD-ACCESS-TOKEN": testToken}, alwaysDropped...)
	w.do("GET", proxyPath(execdPort, "/ping"), everyHeader...).want(t, 200, "")
	checkHeaders(t, execd.take().Header, map[string]string{"X-EXECD-ACCESS-TOKEN": testToken}, alwaysDropped...)
	w.do("GET", proxyPath(execdPort, "/ping"), "X-EXECD-ACCESS-TOKEN", testToken, "Connection", "X-EXECD-ACCESS-TOKEN").want(t, 200, "")
	checkHeaders(t, execd.take().Header, map[string]string{"X-EXECD-ACCESS-TOKEN": testToken})
}

func TestTheAPIGetsKeysButNoTokensOfSandboxes(t *testing.T) {
	var api seen
	w := newWorld(t, api.handler)
	w.configure(nil)
	w.do("GET", "/v1/sandboxes?a=1;b=%zz", append(everyHeader, "Host", "sandboxes.example:1234")...).want(t, 200, "")
	got := api.take()
	checkHeaders(t, got.Header, map[string]string{
		"OPEN-SANDBOX-API-KEY": testKey, "Cookie": "a=b", "Authorization": "Bearer app", "OPEN-SANDBOX-CLIENT-IP": "10.0.0.1",
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "sandboxes.example:1234", "X-Forwarded-Proto": "http", "X-Request-ID": "mine",
	}, "X-EXECD-ACCESS-TOKEN", "OPENSANDBOX-EGRESS-AUTH", "Forwarded", "X-Real-IP", "X-Hop", "Proxy-Authorization")
	if got.Host != "sandboxes.example:1234" || got.RequestURI != "/v1/sandboxes?a=1;b=%zz" {
		t.Errorf("got %q %q", got.Host, got.RequestURI)
	}
}

func TestARequestWithoutUserAgentGetsNone(t *testing.T) {
	w, _ := standard(t, nil)
	var app seen
	port := newApp(t, app.handler)
	w.raw("GET " + proxyPath(port, "/") + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	checkHeaders(t, app.take().Header, nil, "User-Agent")
}

func TestEveryAnswerHasOneRequestID(t *testing.T) {
	w, _ := standard(t, func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("X-Request-ID", "of the app") })
	for _, path := range []string{"/v1/sandboxes", proxyPath(execdPort, "/ping"), proxyPath(execdPort, "/internal"), "/sandboxes/none/proxy/80", "/status.ok"} {
		given := w.do("GET", path, "X-Request-ID", "  mine ", "X-EXECD-ACCESS-TOKEN", testToken)
		if got := given.Header.Values("X-Request-ID"); len(got) != 1 || got[0] != "mine" {
			t.Errorf("%s: %q", path, got)
		}
		made := w.do("GET", path, "X-Request-ID", strings.Repeat("x", 1000), "X-EXECD-ACCESS-TOKEN", testToken).Header.Values("X-Request-ID")
		if len(made) != 1 || len(made[0]) != 32 {
			t.Errorf("%s: %q", path, made)
		}
		if dates := given.Header.Values("Date"); len(dates) != 1 {
			t.Errorf("%s: %d dates", path, len(dates))
		}
	}
}
