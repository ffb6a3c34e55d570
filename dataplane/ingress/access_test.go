// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/base64"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestExecdNeedsItsTokenOrAnAPIKey(t *testing.T) {
	w, _ := standard(t, nil)
	path := proxyPath(execdPort, "/ping")
	w.do("GET", path).want(t, 401, codeNoAccess)
	w.do("GET", path, "X-EXECD-ACCESS-TOKEN", "wrong").want(t, 401, codeNoAccess)
	w.do("GET", path, "X-EXECD-ACCESS-TOKEN", "").want(t, 401, codeNoAccess)
	w.do("GET", path, "OPEN-SANDBOX-API-KEY", "wrong").want(t, 401, codeInvalidKey)
	w.do("GET", path, "X-EXECD-ACCESS-TOKEN", testToken).want(t, 200, "")
	w.do("GET", path, "OPEN-SANDBOX-API-KEY", testKey).want(t, 200, "")
	for _, headers := range [][]string{{"Host", testID + "-44772.localhost"}, {"OpenSandbox-Ingress-To", testID + "-44772"}} {
		w.do("GET", "/ping", headers...).want(t, 401, codeNoAccess)
		w.do("GET", "/ping", append(headers, "X-EXECD-ACCESS-TOKEN", testToken)...).want(t, 200, "")
	}
	w.do("GET", "/"+testID+"/44772/ping").want(t, 401, codeNoAccess)
}

func TestAnEmptyTokenOpensNothing(t *testing.T) {
	w, e := standard(t, nil)
	w.put(e, map[string]any{"execdToken": ""})
	w.do("GET", proxyPath(execdPort, "/ping"), "X-EXECD-ACCESS-TOKEN", "").want(t, 401, codeNoAccess)
}

func TestAUserPortIsOpenUnlessAccessIsSecure(t *testing.T) {
	w, e := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "app") })
	w.do("GET", proxyPath(port, "/")).want(t, 200, "")
	w.put(e, map[string]any{"secureToken": testSecure})
	w.do("GET", proxyPath(port, "/")).want(t, 401, codeNoAccess)
	w.do("GET", proxyPath(port, "/"), "OpenSandbox-Secure-Access", "wrong").want(t, 401, codeNoAccess)
	w.do("GET", proxyPath(port, "/"), "OpenSandbox-Secure-Access", testSecure).want(t, 200, "")
	w.do("GET", "/", "Host", testID+"-"+strconv.Itoa(port)+".localhost").want(t, 401, codeNoAccess)
	w.do("GET", proxyPath(execdPort, "/ping"), "OpenSandbox-Secure-Access", testSecure).want(t, 401, codeNoAccess)
	w.do("GET", proxyPath(execdPort, "/ping"), "X-EXECD-ACCESS-TOKEN", testToken).want(t, 401, codeNoAccess)
	w.do("GET", proxyPath(execdPort, "/ping"), "X-EXECD-ACCESS-TOKEN", testToken, "OpenSandbox-Secure-Access", testSecure).want(t, 200, "")
}

func TestWithTenantsTheServerProxyNeedsTheOwnersKey(t *testing.T) {
	w, e := standard(t, nil)
	port := newApp(t, func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "app") })
	w.configure(map[string]any{"multiTenant": true, "apiKeyHashes": []string{hashOf(testKey), hashOf("of another tenant")}})
	w.do("GET", proxyPath(port, "/")).want(t, 401, codeMissingKey)
	w.do("GET", proxyPath(port, "/"), "OPEN-SANDBOX-API-KEY", "wrong").want(t, 401, codeInvalidKey)
	w.do("GET", proxyPath(port, "/"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 200, "")
	w.put(e, map[string]any{"keyHashes": []string{hashOf(testKey)}})
	w.do("GET", proxyPath(port, "/"), "OPEN-SANDBOX-API-KEY", "of another tenant").want(t, 401, codeInvalidKey)
	w.do("GET", proxyPath(execdPort, "/ping"), "OPEN-SANDBOX-API-KEY", "of another tenant").want(t, 401, codeInvalidKey)
	w.do("GET", proxyPath(execdPort, "/ping"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 200, "")
}

func TestAnOwnerWithoutKeysLetsNoKeyIn(t *testing.T) {
	w, e := standard(t, nil)
	w.put(e, map[string]any{"keyHashes": []string{}})
	w.do("GET", proxyPath(execdPort, "/ping"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 401, codeInvalidKey)
	w.configure(map[string]any{"multiTenant": true})
	w.do("GET", proxyPath(8000, "/"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 401, codeInvalidKey)
	w.put(e, map[string]any{"keyHashes": nil})
	w.do("GET", proxyPath(execdPort, "/ping"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 200, "")
	w.configure(map[string]any{"apiKeyHashes": []string{}})
	w.do("GET", proxyPath(execdPort, "/ping"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 401, codeInvalidKey)
}

// forged is a signature that is certainly another: its first character is.
func forged(signature string) string {
	if signature[0] == 'a' {
		return "b" + signature[1:]
	}
	return "a" + signature[1:]
}

func TestASignedRouteStandsForEveryToken(t *testing.T) {
	w, e := standard(t, nil)
	w.configure(map[string]any{"signing": map[string]string{"k": base64.StdEncoding.EncodeToString(signingKey)}})
	w.put(e, map[string]any{"secureToken": testSecure})
	port := newApp(t, func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, r.URL.Path) })
	expires := expiresIn(time.Hour)
	for _, number := range []int{port, execdPort} {
		name := testID + "-" + strconv.Itoa(number) + "-" + expires
		full := FullSignature(signingKey, testID, uint16(number), expires) + "k"
		short := ShortSignature(signingKey, testID, uint16(number), expires) + "k"
		if got := w.do("GET", "/"+testID+"/"+strconv.Itoa(number)+"/"+expires+"/"+full+"/ping"); got.StatusCode != 200 {
			t.Errorf("uri: %d %s", got.StatusCode, got.body)
		}
		if got := w.do("GET", "/ping", "OpenSandbox-Ingress-To", name+"-"+full); got.StatusCode != 200 {
			t.Errorf("header: %d %s", got.StatusCode, got.body)
		}
		if got := w.do("GET", "/ping", "Host", full+"."+name+".localhost"); got.StatusCode != 200 {
			t.Errorf("host: %d %s", got.StatusCode, got.body)
		}
		w.do("GET", "/ping", "Host", name+"-"+short+".localhost").want(t, 401, codeNoAccess)
		// A wrong signature is not made good by a right token.
		w.do("GET", "/ping", "OpenSandbox-Ingress-To", name+"-"+forged(full), "OpenSandbox-Secure-Access", testSecure, "X-EXECD-ACCESS-TOKEN", testToken).want(t, 401, codeNoAccess)
	}
	if got := w.do("GET", "/"+testID+"/"+strconv.Itoa(port)+"/"+expires+"/"+FullSignature(signingKey, testID, uint16(port), expires)+"k/a/b"); got.body != "/a/b" {
		t.Errorf("the application was asked for %q", got.body)
	}
	w.configure(map[string]any{"acceptsShortSignatures": true, "signing": map[string]string{"k": base64.StdEncoding.EncodeToString(signingKey)}})
	short := ShortSignature(signingKey, testID, uint16(port), expires) + "k"
	w.do("GET", "/", "Host", testID+"-"+strconv.Itoa(port)+"-"+expires+"-"+short+".localhost").want(t, 200, "")
}

func TestEgressIsNeverForwardedIntoTheSandbox(t *testing.T) {
	w, e := standard(t, nil)
	w.do("GET", proxyPath(egressPort, "/policy")).want(t, 503, codeEgressUnavailable)
	w.do("GET", proxyPath(egressPort, "/policy"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 503, codeEgressUnavailable)
	if _, asked := e.connects.Load("127.0.0.1:18080"); asked {
		t.Error("execd was asked for port 18080")
	}

	var egress seen
	socket := filepath.Join(w.dir, "egress.sock")
	serveUnix(t, socket, http.HandlerFunc(egress.handler))
	w.put(e, map[string]any{"egress": socket, "egressToken": "egress-token"})
	w.do("GET", proxyPath(egressPort, "/policy"), "OPENSANDBOX-EGRESS-AUTH", "wrong").want(t, 401, codeNoAccess)
	w.do("GET", proxyPath(egressPort, "/policy"), "OPENSANDBOX-EGRESS-AUTH", "egress-token", "X-EXECD-ACCESS-TOKEN", testToken).want(t, 200, "")
	got := egress.take()
	checkHeaders(t, got.Header, map[string]string{"OPENSANDBOX-EGRESS-AUTH": "egress-token"}, "X-EXECD-ACCESS-TOKEN")
	if got.URL.Path != "/policy" {
		t.Errorf("asked for %q", got.URL.Path)
	}
}

func TestAPausedSandboxAnswersAtOnce(t *testing.T) {
	w, e := standard(t, nil)
	w.put(e, map[string]any{"state": "paused"})
	w.do("GET", proxyPath(execdPort, "/ping"), "X-EXECD-ACCESS-TOKEN", testToken).want(t, 409, codeNotRunning)
	w.do("GET", proxyPath(8080, "/")).want(t, 409, codeNotRunning)
	w.put(e, nil)
	w.do("GET", proxyPath(execdPort, "/ping"), "X-EXECD-ACCESS-TOKEN", testToken).want(t, 200, "")
}
