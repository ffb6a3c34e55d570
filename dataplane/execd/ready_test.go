// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestADaemonIsReadyOnceItAnswers(t *testing.T) {
	d := startDaemon(t, "")
	response, body := d.call("GET", "/ready", "")
	if response.StatusCode != 200 || strings.TrimSpace(body) != `{"initialized":true,"sandboxId":"sandbox-1","generation":0}` {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
	response, body = d.call("POST", "/internal/init", `{"sandboxId":"x","generation":1}`)
	wantError(t, "init", response, body, http.StatusNotImplemented, CodeNotSupported)
}

func TestIsolatedRunsAreUnavailableWithAReason(t *testing.T) {
	d := startDaemon(t, "")
	const base = "/v1/isolated/session/2f0cc6b8-3a0e-4a5c-9f0a-0d7c6b8f2f0c"
	for _, route := range []string{
		"POST /v1/isolated/session", "GET /v1/isolated/sessions", "GET " + base, "DELETE " + base, "POST " + base + "/run",
		"GET " + base + "/runs/1", "GET " + base + "/runs/1/logs?cursor=0",
		"GET " + base + "/files/info", "DELETE " + base + "/files", "POST " + base + "/files/permissions", "POST " + base + "/files/mv",
		"GET " + base + "/files/search", "POST " + base + "/files/replace", "POST " + base + "/files/upload", "GET " + base + "/files/download",
		"GET " + base + "/directories/list", "POST " + base + "/directories", "DELETE " + base + "/directories",
	} {
		method, path, _ := strings.Cut(route, " ")
		response, body := d.call(method, path, "{}")
		wantError(t, route, response, body, http.StatusServiceUnavailable, CodeUnavailable)
	}
	for _, route := range []string{"POST " + base + "/commit", "GET " + base + "/diff"} {
		method, path, _ := strings.Cut(route, " ")
		response, body := d.call(method, path, "{}")
		wantError(t, route, response, body, http.StatusServiceUnavailable, CodeNotSupported)
	}
	response, body := d.call("PATCH", base+"/run", "{}")
	wantError(t, "PATCH run", response, body, http.StatusMethodNotAllowed, CodeNotSupported)
	if allow := response.Header.Get("Allow"); allow != "POST" {
		t.Errorf("Allow is %q", allow)
	}
}

func TestIsolationCapabilitiesAreAnsweredWithoutNulls(t *testing.T) {
	d := startDaemon(t, "")
	response, body := d.call("GET", "/v1/isolated/capabilities", "")
	var got struct {
		Available *bool
		Message   string
		Hardening struct {
			InitMode string `json:"init_mode"`
			Seccomp  struct{ State string }
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 200 || got.Available == nil || *got.Available || got.Message == "" || strings.Contains(body, "null") {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
	if got.Hardening.InitMode != "none" || got.Hardening.Seccomp.State != "unsupported" {
		t.Errorf("got %+v", got.Hardening)
	}
}

func TestEveryRouteHereNeedsTheToken(t *testing.T) {
	d := startDaemon(t, "secret")
	for _, route := range []string{
		"GET /ready", "POST /code", "GET /v1/isolated/capabilities", "GET /metrics", "GET /metrics/watch", "POST /pty",
		"GET /pty/x/ws", "GET /proxy/80/", "POST /internal/init", "GET /proxy",
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, headers := range [][]string{nil, {TokenHeader, "wrong"}} {
			response, body := d.call(method, path, "", headers...)
			var parsed map[string]string
			if err := json.Unmarshal([]byte(body), &parsed); err != nil || response.StatusCode != 401 || parsed["error"] == "" || len(parsed) != 1 {
				t.Errorf("%s: got %d %s", route, response.StatusCode, body)
			}
		}
	}
	if response, _ := d.call("GET", "/ready", "", TokenHeader, "secret"); response.StatusCode != 200 {
		t.Errorf("with the token: %d", response.StatusCode)
	}
}
