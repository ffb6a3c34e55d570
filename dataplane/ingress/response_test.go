// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestCookiesAreConfined(t *testing.T) {
	const prefix = "/sandboxes/x/proxy/80"
	for in, want := range map[string]string{
		"a=b":                            "a=b; Path=" + prefix,
		"a=b; Path=/":                    "a=b; Path=" + prefix,
		"a=b;path=/app; HttpOnly":        "a=b; HttpOnly; Path=" + prefix + "/app",
		"a=b; Path=/../../x":             "a=b; Path=" + prefix + "/x",
		"a=b; Path=relative":             "a=b; Path=" + prefix,
		"a=b; Path=/1; Path=/2":          "a=b; Path=" + prefix + "/2",
		"a=b; Domain=.localhost; Secure": "a=b; Secure; Path=" + prefix,
		"a=b; DOMAIN = x ; Max-Age=1":    "a=b; Max-Age=1; Path=" + prefix,
		"a=b; SameSite=Lax;;":            "a=b; SameSite=Lax; Path=" + prefix,
		"":                               "; Path=" + prefix,
	} {
		if got := confineCookie(in, prefix); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := confineCookie("a=b; Path=/x; Domain=localhost", ""); got != "a=b; Path=/x" {
		t.Errorf("with a host of its own: %q", got)
	}
}

func TestLocationsStayUnderTheRoute(t *testing.T) {
	x := &exchange{destination: destination{form: byPath, prefix: "/p"}}
	for in, want := range map[string]string{
		"/":                   "/p/",
		"/a/b?x=/../#y":       "/p/a/b?x=/../#y",
		"/../../v1/sandboxes": "/p/v1/sandboxes",
		"/%2e%2e/x?q":         "/p/x?q",
		"//other/x":           "//other/x",
		"https://other/x":     "https://other/x",
		"relative":            "relative",
		"":                    "",
	} {
		if got := x.relocate([]string{in})[0]; got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// hostile answers with everything that would act on the whole origin.
func hostile(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Add("Set-Cookie", "a=1; Path=/; Domain=localhost")
	h.Add("Set-Cookie", "b=2")
	h.Set("Location", "/login")
	h.Set("Server", "x")
	h.Set("Keep-Alive", "timeout=5")
	h.Set("Connection", "X-Hop")
	h.Set("X-Hop", "1")
	h.Set("Content-Security-Policy", "default-src 'self'")
	for _, name := range []string{"Service-Worker-Allowed", "Clear-Site-Data", "Alt-Svc", "Strict-Transport-Security", "Report-To", "NEL"} {
		h.Set(name, "x")
	}
	h.Set("Access-Control-Allow-Origin", "http://evil")
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("X-Custom", "1")
	w.WriteHeader(http.StatusFound)
}

func TestContentOnASharedOriginIsTakenOutOfIt(t *testing.T) {
	w, _ := standard(t, nil)
	port := newApp(t, hostile)
	for _, prefix := range []string{proxyPath(port, ""), "/" + testID + "/" + strconv.Itoa(port)} {
		got := w.do("GET", prefix+"/x")
		got.want(t, http.StatusFound, "")
		checkHeaders(t, got.Header, map[string]string{
			"Set-Cookie":              "a=1; Path=" + prefix + "|b=2; Path=" + prefix,
			"Location":                prefix + "/login",
			"Content-Security-Policy": "default-src 'self'|" + originPolicy,
			"X-Custom":                "1",
		}, "Server", "Keep-Alive", "X-Hop", "Service-Worker-Allowed", "Clear-Site-Data", "Alt-Svc", "Strict-Transport-Security",
			"Report-To", "NEL", "Access-Control-Allow-Credentials")
	}
	if strings.Contains(originPolicy, "allow-same-origin") {
		t.Error("the policy gives the origin back")
	}
}

func TestContentOnItsOwnOriginKeepsItsPoliciesButNoCredentials(t *testing.T) {
	w, _ := standard(t, nil)
	port := newApp(t, hostile)
	got := w.do("GET", "/x", "Host", testID+"-"+strconv.Itoa(port)+".localhost")
	checkHeaders(t, got.Header, map[string]string{
		"Set-Cookie": "a=1; Path=/|b=2", "Location": "/login", "Content-Security-Policy": "default-src 'self'",
		"Service-Worker-Allowed": "x", "Access-Control-Allow-Origin": "http://evil", poweredByHeader: poweredBy,
	}, "Access-Control-Allow-Credentials", "Server")
}

func TestPagesOfASignedRouteDoNotTellWhereTheyAre(t *testing.T) {
	w, e := standard(t, nil)
	w.configure(map[string]any{"signing": map[string]string{"k": base64.StdEncoding.EncodeToString(signingKey)}})
	w.put(e, nil)
	var app seen
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		app.handler(rw, r)
		if policy := r.URL.Query()["policy"]; policy != nil {
			rw.Header()["Referrer-Policy"] = policy
		}
	})
	expires := expiresIn(time.Hour)
	full := FullSignature(signingKey, testID, uint16(port), expires) + "k"
	signed := "/" + testID + "/" + strconv.Itoa(port) + "/" + expires + "/" + full
	host := full + "." + testID + "-" + strconv.Itoa(port) + "-" + expires + ".localhost"
	for query, want := range map[string]string{
		"":                   "same-origin",
		"?policy=unsafe-url": "same-origin",
		"?policy=origin":     "same-origin",
		"?policy=No-Referrer,+strict-origin-when-cross-origin": "same-origin",
		"?policy=no-referrer":                         "no-referrer",
		"?policy=unsafe-url&policy=,same-origin":      "same-origin",
		"?policy=unsafe-url,no-referrer&policy=+,+":   "no-referrer",
		"?policy=no-referrer&policy=nonsense,unknown": "same-origin",
	} {
		for _, got := range []answer{w.do("GET", signed+"/"+query), w.do("GET", "/"+query, "Host", host)} {
			got.want(t, 200, "")
			if policies := got.Header.Values("Referrer-Policy"); !slices.Equal(policies, []string{want}) {
				t.Errorf("%q: %q", query, policies)
			}
		}
	}
	if got := w.do("GET", proxyPath(port, "/?policy=origin")).Header.Get("Referrer-Policy"); got != "origin" {
		t.Errorf("without a signature: %q", got)
	}
	// Another sandbox on the same origin does not hear of it either.
	app.take()
	for page, want := range map[string]string{signed + "/page": "", proxyPath(port, "/page"): "kept", proxyPath(port, "0/x"): ""} {
		w.do("GET", proxyPath(port, "/"), "Referer", "http://"+w.address+page).want(t, 200, "")
		if got := app.take().Header.Get("Referer"); (got != "") != (want != "") {
			t.Errorf("from %s: %q", page, got)
		}
	}
}

func TestErrorsAndExecdAnswersAreOutOfTheOriginToo(t *testing.T) {
	w, _ := standard(t, nil)
	for _, path := range []string{proxyPath(execdPort, "/ping"), "/sandboxes/none/proxy/80", proxyPath(1, "/")} {
		got := w.do("GET", path, "OPEN-SANDBOX-API-KEY", testKey, "Origin", "null")
		checkHeaders(t, got.Header, map[string]string{"Content-Security-Policy": originPolicy, "Access-Control-Allow-Origin": "*"}, "Access-Control-Allow-Credentials")
	}
}

func TestTheServerProxyKnowsFiveMethods(t *testing.T) {
	w, _ := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) { rw.Header().Set("X-Method", r.Method) })
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if got := w.do(method, proxyPath(port, "/")); got.StatusCode != 200 || got.Header.Get("X-Method") != method {
			t.Errorf("%s: %d", method, got.StatusCode)
		}
	}
	for _, method := range []string{"HEAD", "OPTIONS", "PROPFIND"} {
		if got := w.do(method, proxyPath(port, "/")); got.StatusCode != 405 || got.Header.Get("Allow") != proxyMethods {
			t.Errorf("%s: %d", method, got.StatusCode)
		}
	}
	for _, method := range []string{"HEAD", "OPTIONS", "PROPFIND"} {
		if got := w.do(method, "/x", "Host", testID+"-"+strconv.Itoa(port)+".localhost"); got.StatusCode != 200 || got.Header.Get("X-Method") != method {
			t.Errorf("host route, %s: %d", method, got.StatusCode)
		}
	}
	for _, method := range []string{"TRACE", "CONNECT"} {
		if back := w.raw(method + " / HTTP/1.1\r\nHost: " + testID + "-" + strconv.Itoa(port) + ".localhost\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(back, "HTTP/1.1 40") {
			t.Errorf("%s: %s", method, back)
		}
	}
}

func TestAPreflightIsAnsweredWithoutTheSandbox(t *testing.T) {
	w, _ := standard(t, nil)
	got := w.do("OPTIONS", proxyPath(1, "/x"), "Origin", "http://page", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-a, authorization")
	got.want(t, http.StatusNoContent, "")
	checkHeaders(t, got.Header, map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "x-a, authorization", "Access-Control-Allow-Methods": proxyMethods,
	}, "Access-Control-Allow-Credentials")
}

func TestRepeatedHeadersStayApart(t *testing.T) {
	w, _ := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header()["X-Many"] = r.Header.Values("X-Many")
	})
	if got := w.do("GET", proxyPath(port, "/"), "X-Many", "1", "X-Many", "2, 3").Header.Values("X-Many"); !slices.Equal(got, []string{"1", "2, 3"}) {
		t.Errorf("got %q", got)
	}
}
