// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

var otherID = strings.Replace(testID, "0", "1", 1)

func TestAServerIsConfiguredBySettingsAndRoutes(t *testing.T) {
	isConfigured := func(w *world) bool {
		select {
		case <-w.server.Configured():
			return true
		default:
			return false
		}
	}
	w := newWorld(t, nil)
	w.configure(nil)
	if isConfigured(w) {
		t.Error("configured without routes")
	}
	w.mustTell("replace", map[string]any{"routes": []any{}})
	if !isConfigured(w) {
		t.Error("not configured by settings, then routes")
	}
	w = newWorld(t, nil)
	w.put(newExecd(t, nil), nil)
	if isConfigured(w) {
		t.Error("configured without settings")
	}
	w.configure(nil)
	w.configure(nil)
	if !isConfigured(w) {
		t.Error("not configured by routes, then settings")
	}
}

func TestRoutesArePutDeletedAndReplaced(t *testing.T) {
	w := newWorld(t, nil)
	w.configure(nil)
	one := newExecd(t, func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "one") })
	two := newExecd(t, func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "two") })
	get := func(id string) string {
		return w.do("GET", "/sandboxes/"+id+"/proxy/44772/", "X-EXECD-ACCESS-TOKEN", testToken).body
	}
	w.put(one, nil)
	if got := get(testID); got != "one" {
		t.Errorf("after put: %s", got)
	}
	w.put(two, nil) // it moved
	if got := get(testID); got != "two" {
		t.Errorf("after another put: %s", got)
	}
	w.mustTell("replace", map[string]any{"routes": []any{routeTo(one, map[string]any{"id": otherID})}})
	if got := get(otherID); got != "one" {
		t.Errorf("after replace: %s", got)
	}
	if got := get(testID); !strings.Contains(got, codeNotFound) {
		t.Errorf("still there after replace: %s", got)
	}
	w.mustTell("delete", map[string]any{"id": otherID})
	w.mustTell("delete", map[string]any{"id": otherID})
	if got := get(otherID); !strings.Contains(got, codeNotFound) {
		t.Errorf("still there after delete: %s", got)
	}
}

func TestABadMessageIsNamedAndChangesNothing(t *testing.T) {
	w, e := standard(t, nil)
	for _, c := range []struct {
		op     string
		fields map[string]any
		says   string
	}{
		{"dance", nil, "unknown op"},
		{"put", nil, "no route"},
		{"put", map[string]any{"route": routeTo(e, map[string]any{"state": "dreaming"})}, "unknown state"},
		{"put", map[string]any{"route": routeTo(e, map[string]any{"tcp": "127.0.0.1:1"})}, "one of socket and tcp"},
		{"put", map[string]any{"route": routeTo(e, map[string]any{"socket": ""})}, "one of socket and tcp"},
		{"put", map[string]any{"route": routeTo(e, map[string]any{"socket": "", "tcp": "nowhere"})}, "host:port"},
		{"put", map[string]any{"route": routeTo(e, map[string]any{"id": ""})}, "no id"},
		{"put", map[string]any{"route": routeTo(e, map[string]any{"execdToken": "a\r\nb"})}, "token"},
		{"put", map[string]any{"route": routeTo(e, map[string]any{"keyHashes": []string{"x"}})}, "SHA-256"},
		{"put", map[string]any{"route": "x"}, "cannot unmarshal"},
		{"config", map[string]any{"apiKeyHashes": []string{"zz"}}, "SHA-256"},
		{"config", map[string]any{"signing": map[string]string{"kk": "AAAA"}}, "one character"},
		{"config", map[string]any{"signing": map[string]string{"k": "?"}}, "base64"},
	} {
		if said := w.tell(c.op, c.fields); !strings.Contains(said, c.says) {
			t.Errorf("%s %v: %q", c.op, c.fields, said)
		}
	}
	w.do("GET", proxyPath(execdPort, "/"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 200, "")
	if said := w.tell("replace", map[string]any{"routes": []any{routeTo(e, map[string]any{"id": ""}), routeTo(e, nil)}}); !strings.Contains(said, "no id") {
		t.Errorf("replace: %q", said)
	}
	w.do("GET", proxyPath(execdPort, "/"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 200, "")
}

func TestALineThatIsNoJSONIsAnsweredAndTheNextIsRead(t *testing.T) {
	w := newWorld(t, nil)
	io.WriteString(w.control, "nonsense\n\n")
	if r := <-w.replies; r.Ack == nil || *r.Ack != 0 || r.Error == "" {
		t.Errorf("got %+v", r)
	}
	w.configure(nil)
}

func TestTheEndOfTheChannelEndsControlButNotService(t *testing.T) {
	w, _ := standard(t, nil)
	w.control.Close()
	if err := <-w.ended; err != nil {
		t.Error(err)
	}
	w.do("GET", proxyPath(execdPort, "/"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 200, "")
}

// nextActivity waits for a report and returns the time of testID in it.
func (w *world) nextActivity() int64 {
	w.t.Helper()
	for {
		select {
		case r := <-w.replies:
			if r.Activity != nil {
				return r.Activity[testID]
			}
		case <-testContext(w.t).Done():
			w.t.Fatal("no report")
		}
	}
}

func TestTrafficIsReported(t *testing.T) {
	w, _ := standard(t, nil)
	before := time.Now().UnixMilli()
	w.do("GET", proxyPath(execdPort, "/"), "OPEN-SANDBOX-API-KEY", testKey).want(t, 200, "")
	after := time.Now().UnixMilli()
	if at := w.nextActivity(); at < before || at > after {
		t.Errorf("reported %d, not in %d..%d", at, before, after)
	}
}

func TestAStreamIsTrafficAsLongAsItMoves(t *testing.T) {
	step := make(chan struct{})
	w, _ := standard(t, func(rw http.ResponseWriter, _ *http.Request) {
		for range step {
			io.WriteString(rw, "x")
			rw.(http.Flusher).Flush()
		}
	})
	r, _ := http.NewRequest("GET", "http://"+w.address+proxyPath(execdPort, "/"), nil)
	r.Header.Set("X-EXECD-ACCESS-TOKEN", testToken)
	go func() { step <- struct{}{} }()
	response, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := w.nextActivity()
	step <- struct{}{}
	if second := w.nextActivity(); second <= first {
		t.Errorf("%d, then %d", first, second)
	}
	close(step)
}

func TestRefusedAndUncountedRequestsAreNoTraffic(t *testing.T) {
	w, e := standard(t, nil)
	w.do("GET", proxyPath(execdPort, "/")).want(t, 401, "")
	w.do("GET", proxyPath(execdPort, "/"), "X-EXECD-ACCESS-TOKEN", testToken, "OpenSandbox-Access-Renew", "skip").want(t, 200, "")
	w.put(e, map[string]any{"state": "paused"})
	w.do("GET", proxyPath(execdPort, "/"), "X-EXECD-ACCESS-TOKEN", testToken).want(t, 409, "")
	if activity := w.server.table.takeActivity(); activity != nil {
		t.Errorf("reported %v", activity)
	}
}

func TestStreamsAreCountedAndReported(t *testing.T) {
	step := make(chan struct{})
	w, _ := standard(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.(http.Flusher).Flush()
		<-step
	})
	nextReport := func() StreamCounts {
		for {
			select {
			case r := <-w.replies:
				if r.Streams != nil {
					return r.Streams["request"]
				}
			case <-testContext(t).Done():
				t.Fatal("no report")
			}
		}
	}
	r, _ := http.NewRequest("GET", "http://"+w.address+proxyPath(execdPort, "/"), nil)
	r.Header.Set("X-EXECD-ACCESS-TOKEN", testToken)
	for nextReport() != (StreamCounts{}) { // the first says that there are none
		continue
	}
	response, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	w.do("GET", proxyPath(execdPort, "/")).want(t, 401, "") // never comes to a sandbox
	if got := nextReport(); got != (StreamCounts{Open: 1, Begun: 1}) {
		t.Errorf("while it goes on: %+v", got)
	}
	close(step)
	if got := nextReport(); got != (StreamCounts{Begun: 1}) {
		t.Errorf("after it: %+v", got)
	}
}
