// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATerminalIsMadeDescribedAndDeleted(t *testing.T) {
	d := startDaemon(t, "")
	for _, body := range []string{"", "{}", `{"cwd":null,"command":"true","new_field":1}`} {
		response, text := d.call("POST", "/pty", body)
		var created map[string]string
		if err := json.Unmarshal([]byte(text), &created); err != nil || response.StatusCode != http.StatusCreated || len(created) != 1 {
			t.Fatalf("%q: got %d %s", body, response.StatusCode, text)
		}
		id := created["session_id"]
		response, text = d.call("GET", "/pty/"+id, "")
		want := fmt.Sprintf(`{"launch_attempted":false,"launch_failed":false,"output_offset":0,"running":false,"session_id":%q}`, id)
		if response.StatusCode != 200 || strings.TrimSpace(text) != want {
			t.Errorf("got %d %s", response.StatusCode, text)
		}
		if response, text = d.call("DELETE", "/pty/"+id, ""); response.StatusCode != 200 || text != "" {
			t.Errorf("got %d %s", response.StatusCode, text)
		}
		for _, method := range []string{"GET", "DELETE"} {
			response, text = d.call(method, "/pty/"+id, "")
			wantError(t, method, response, text, http.StatusNotFound, CodeContextNotFound)
		}
	}
}

func TestABadRequestForATerminalIsRefused(t *testing.T) {
	d := startDaemon(t, "")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		"{", "[]", `{"cwd":1}`, `{"command":["ls"]}`, `{"cwd":"` + file + `"}`, `{"cwd":"` + file + `/missing"}`,
		`{"cwd":"$NO_SUCH_VARIABLE_HERE"}`, `{"cwd":"a\u0000b"}`, `{"command":"a\u0000b"}`, `{} {}`,
		`{"cols":0}`, `{"rows":65536}`, `{"rows":"24"}`, `{"cols":-1,"rows":1}`,
	} {
		response, text := d.call("POST", "/pty", body)
		wantError(t, body, response, text, http.StatusBadRequest, CodeInvalidBody)
	}
}

func TestAttachingIsRefusedBeforeTheUpgrade(t *testing.T) {
	d := startDaemon(t, "")
	id := d.newTerminal("{}")
	upgrade := []string{"Connection", "keep-alive, Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="}
	for query, want := range map[string]int{
		"?since=-1": 400, "?since=x": 400, "?since=": 400, "?since=99999999999999999999": 400, "?pty=x": 400, "?takeover=2": 400,
	} {
		response, text := d.call("GET", "/pty/"+id+"/ws"+query, "", upgrade...)
		wantError(t, query, response, text, want, CodeInvalidBody)
	}
	response, text := d.call("GET", "/pty/unknown/ws", "", upgrade...)
	wantError(t, "unknown", response, text, http.StatusNotFound, CodeContextNotFound)
	response, text = d.call("GET", "/pty/"+id+"/ws", "")
	wantError(t, "no upgrade", response, text, http.StatusUpgradeRequired, CodeInvalidBody)
	for i, wrong := range map[int]string{5: "8", 7: "short", 1: "close", 3: "h2c"} {
		headers := append([]string(nil), upgrade...)
		headers[i] = wrong
		want := map[bool]int{true: http.StatusUpgradeRequired, false: http.StatusBadRequest}[i < 4]
		response, text := d.call("GET", "/pty/"+id+"/ws?takeover=1", "", headers...)
		wantError(t, headers[i-1]+": "+wrong, response, text, want, CodeInvalidBody)
	}
	// None of these started the shell or took the place.
	if response, text := d.call("GET", "/pty/"+id, ""); response.StatusCode != 200 || !strings.Contains(text, `"launch_attempted":false`) {
		t.Errorf("got %d %s", response.StatusCode, text)
	}
	d.attach(id, "").want("connected")
}

func TestATerminalHasTheSizeItWasMadeWith(t *testing.T) {
	d := startDaemon(t, "")
	v := d.attach(d.newTerminal(`{"command":"stty size","cols":132,"rows":43}`), "")
	v.want("connected")
	v.want("exit")
	if got := v.stdout.String(); got != "43 132\r\n" {
		t.Errorf("got %q", got)
	}
}
