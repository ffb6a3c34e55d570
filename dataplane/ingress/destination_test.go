// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const (
	fullShape  = "abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst0"
	shortShape = "deadbeefk"
)

func find(t tb, host, path string, headers ...string) (destination, *apiError) {
	t.Helper()
	address, err := url.ParseRequestURI(path)
	if err != nil {
		t.Fatal(err)
	}
	r := &http.Request{Host: host, URL: address, Header: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return findDestination(r, "localhost")
}

func TestEveryFormOfARouteIsRead(t *testing.T) {
	signed := signature{"abcdef", fullShape}
	short := signature{"abcdef", shortShape}
	for _, c := range []struct {
		host, path, header string
		want               destination
	}{
		{path: "/sandboxes/" + testID + "/proxy/8080", want: destination{form: byPath, id: testID, port: 8080, prefix: "/sandboxes/" + testID + "/proxy/8080", path: "/"}},
		{path: "/sandboxes/" + testID + "/proxy/8080/", want: destination{form: byPath, id: testID, port: 8080, prefix: "/sandboxes/" + testID + "/proxy/8080", path: "/"}},
		{path: "/v1/sandboxes/" + testID + "/proxy/44772/a%2Fb/c", want: destination{form: byPath, id: testID, port: 44772, prefix: "/v1/sandboxes/" + testID + "/proxy/44772", path: "/a%2Fb/c"}},
		{path: "/sandboxes/unknown/proxy/1//x", want: destination{form: byPath, id: "unknown", port: 1, prefix: "/sandboxes/unknown/proxy/1", path: "//x"}},
		{path: "/" + testID + "/8080", want: destination{form: byURI, id: testID, port: 8080, prefix: "/" + testID + "/8080", path: "/"}},
		{path: "/" + testID + "/8080/a/b", want: destination{form: byURI, id: testID, port: 8080, prefix: "/" + testID + "/8080", path: "/a/b"}},
		{path: "/fsb-abc123/8080/a", want: destination{form: byURI, id: "fsb-abc123", port: 8080, prefix: "/fsb-abc123/8080", path: "/a"}},
		{path: "/" + testID + "/8080/abcdef/" + fullShape + "/a", want: destination{form: byURI, id: testID, port: 8080, prefix: "/" + testID + "/8080/abcdef/" + fullShape, path: "/a", signature: signed}},
		{path: "/" + testID + "/8080/abcdef/" + shortShape, want: destination{form: byURI, id: testID, port: 8080, prefix: "/" + testID + "/8080/abcdef/" + shortShape, path: "/", signature: short}},
		{path: "/" + testID + "/8080/v1/" + shortShape, want: destination{form: byURI, id: testID, port: 8080, prefix: "/" + testID + "/8080", path: "/v1/" + shortShape}},
		{host: testID + "-8080.localhost:9000", path: "/v1/sandboxes", want: destination{form: byHost, id: testID, port: 8080, path: "/v1/sandboxes"}},
		{host: strings.ToUpper(testID) + "-8080.LocalHost.", path: "/..", want: destination{form: byHost, id: testID, port: 8080, path: "/.."}},
		{host: testID + "-8080-abcdef-" + shortShape + ".localhost", path: "/", want: destination{form: byHost, id: testID, port: 8080, path: "/", signature: short}},
		{host: fullShape + "." + testID + "-8080-abcdef.localhost", path: "/", want: destination{form: byHost, id: testID, port: 8080, path: "/", signature: signed}},
		{header: testID + "-8080", path: "/a", want: destination{form: byHeader, id: testID, port: 8080, path: "/a"}},
		{header: testID + "-8080-abcdef-" + fullShape, path: "/a", want: destination{form: byHeader, id: testID, port: 8080, path: "/a", signature: signed}},
		{header: "fsb-" + testID + "-8080", path: "/a", want: destination{form: byHeader, id: "fsb-" + testID, port: 8080, path: "/a"}},
		{header: testID + "-8080", host: testID + "-8080.localhost", path: "/a", want: destination{form: byHeader, id: testID, port: 8080, path: "/a"}},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{"OpenSandbox-Ingress-To", c.header}
		}
		got, err := find(t, c.host, c.path, headers...)
		if err != nil || got != c.want {
			t.Errorf("%s %s %s:\n got %+v %v\nwant %+v", c.host, c.path, c.header, got, err, c.want)
		}
	}
}

func TestTheOlderHeaderIsARouteToo(t *testing.T) {
	got, err := find(t, "", "/", "OPEN-SANDBOX-INGRESS", testID+"-80")
	if err != nil || got.form != byHeader || got.port != 80 {
		t.Errorf("got %+v %v", got, err)
	}
}

func TestEverythingElseIsForTheAPI(t *testing.T) {
	for _, c := range [][2]string{
		{"", "/"}, {"", "/v1/sandboxes"}, {"", "/sandboxes/" + testID}, {"", "/sandboxes/" + testID + "/proxy"},
		{"", "/sandboxes/" + testID + "/proxy/"}, {"", "/sandboxes/" + testID + "/proxy/http/x"},
		{"", "/sandboxes/" + testID + "/endpoints/8080"}, {"", "/v2/sandboxes/" + testID + "/proxy/8080"},
		{"", "//sandboxes/" + testID + "/proxy/8080"}, {"", "/" + testID}, {"", "/" + testID + "/logs"},
		{"", "/%73andboxes/" + testID + "/proxy/8080"},
		{"localhost:8080", "/health"}, {"api.localhost", "/"}, {testID + "-8080.example.com", "/"},
		{testID + "-8080.evillocalhost", "/"}, {testID + ".localhost", "/"}, {"[::1]:8080", "/"}, {"[::1]", "/"},
		{strings.ToUpper(testID) + ".localhost", "/"},
	} {
		if got, err := find(t, c[0], c[1]); err != nil || got.form != toAPI {
			t.Errorf("%v: got %+v %v", c, got, err)
		}
	}
}

func TestABadRouteIsRefused(t *testing.T) {
	for _, c := range []struct{ host, path, header, code string }{
		{path: "/sandboxes/" + testID + "/proxy/0", code: codeInvalidPort},
		{path: "/sandboxes/" + testID + "/proxy/65536/x", code: codeInvalidPort},
		{path: "/" + testID + "/99999/", code: codeInvalidPort},
		{host: testID + "-99999.localhost", path: "/", code: codeInvalidPort},
		{host: testID + "-x.localhost", path: "/", code: codeInvalidPort},
		{host: testID + "-80-abcdef.localhost", path: "/", code: codeBadRoute},
		{host: "www." + testID + "-80.localhost", path: "/", code: codeBadRoute},
		{host: fullShape + "." + testID + "-80.localhost", path: "/", code: codeBadRoute},
		{header: "nonsense", path: "/", code: codeBadRoute},
		{header: testID, path: "/", code: codeBadRoute},
		{header: testID + "-80", host: testID + "-81.localhost", path: "/", code: codeBadRoute},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{"OpenSandbox-Ingress-To", c.header}
		}
		if _, err := find(t, c.host, c.path, headers...); err == nil || err.Code != c.code {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestPathsThatClimbAreRefused(t *testing.T) {
	for _, rest := range []string{
		"/..", "/../", "/a/../b", "/./a", "/%2e%2e/a", "/%2E%2e", "/.%2e", "/a%2f..%2fb", "/..%2f..%2finternal", "/..%5c..", `/a\..\b`,
	} {
		for _, prefix := range []string{"/sandboxes/" + testID + "/proxy/8080", "/v1/sandboxes/" + testID + "/proxy/44772", "/" + testID + "/8080"} {
			if got, err := find(t, "", prefix+rest); err == nil {
				t.Errorf("%s: got %+v", prefix+rest, got)
			}
		}
	}
	for _, rest := range []string{"/...", "/a..b", "/..a/b..", "/%252e%252e/"} {
		if got, err := find(t, "", "/sandboxes/"+testID+"/proxy/8080"+rest); err != nil || got.path != rest {
			t.Errorf("%s: got %+v %v", rest, got, err)
		}
	}
}

func TestInternalRoutesOfExecdAreOutOfReach(t *testing.T) {
	hidden := []string{
		"/internal", "/internal/", "/internal/init", "/%69nternal/init", "/internal%2finit", "/Internal/init", "//internal/init",
		"/./internal/init", "/ping/../internal/init", "/ping/%2e%2e/internal/init", "/proxy/44772/internal/init", "/proxy/044772/internal/init", "/proxy%2f44772%2finternal",
	}
	for _, path := range hidden {
		for _, d := range []struct{ host, path string }{
			{testID + "-44772.localhost", path}, {"", "/sandboxes/" + testID + "/proxy/44772" + path}, {"", "/" + testID + "/44772" + path},
		} {
			if got, err := find(t, d.host, d.path); err == nil {
				t.Errorf("%v: got %+v", d, got)
			}
		}
	}
	if _, err := find(t, testID+"-44772.localhost", "/proxy/8080/internal"); err != nil {
		t.Error(err)
	}
}

func FuzzFindDestination(f *testing.F) {
	f.Add("localhost", "/v1/sandboxes/"+testID+"/proxy/44772/a/%2e%2e/internal", "")
	f.Add(testID+"-8080.localhost:1", "/x", "")
	f.Add(fullShape+"."+testID+"-8080-abcdef.localhost", "/x", "")
	f.Add("h", "/"+testID+"/80/abcdef/"+fullShape+"/..;/x", testID+"-80")
	f.Fuzz(func(t *testing.T, host, path, header string) {
		address, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		r := &http.Request{Host: host, URL: address, Header: http.Header{}}
		if header != "" {
			r.Header[routeHeader] = []string{header}
		}
		d, refused := findDestination(r, "localhost")
		if refused != nil || d.form == toAPI {
			return
		}
		if d.id == "" || d.port == 0 || !strings.HasPrefix(d.path, "/") {
			t.Fatalf("incomplete: %+v", d)
		}
		if whole := address.EscapedPath(); d.prefix != "" && d.prefix+d.path != whole && d.prefix+d.path != whole+"/" {
			t.Fatalf("%q is not what was asked for: %+v", whole, d)
		}
		decoded, err := url.PathUnescape(d.path)
		if err != nil {
			t.Fatalf("not well escaped: %+v", d)
		}
		if d.prefix != "" && climbs(decoded) {
			t.Fatalf("climbs: %+v", d)
		}
		if d.port == execdPort && strings.HasPrefix(strings.ToLower(strings.ReplaceAll(decoded, "//", "/")), "/internal/") {
			t.Fatalf("reaches execd's own: %+v", d)
		}
	})
}
