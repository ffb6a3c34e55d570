// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestAConversationWithAShell(t *testing.T) {
	d := startDaemon(t, "")
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	id := d.newTerminal(`{"cwd":"/usr"}`, "traceparent", parent)
	v := d.attach(id, "")
	if frame := v.want("connected"); frame["session_id"] != id || frame["mode"] != "pty" || len(frame) != 3 {
		t.Errorf("got %v", frame)
	}
	v.enter("echo $((40+2)) $PWD $TRACEPARENT")
	v.see("42 /usr " + parent)
	v.send(`{"type":"stdin","data":"stty size\n"}`)
	v.see("24 80")
	v.send(`{"type":"resize","cols":132,"rows":43}`)
	v.enter("stty size")
	v.see("43 132")
	v.enter("sh -c 'echo rea''dy; exec sleep 1000'")
	v.see("ready\r\n")
	v.send(`{"type":"signal","signal":"SIGINT"}`)
	v.enter("echo status $?.")
	v.see("status 130.")
	if _, isRunning := d.offset(id); !isRunning {
		t.Error("it says it does not run")
	}
	v.enter("exit 9")
	if frame := v.want("exit"); frame["exit_code"] != 9.0 || len(frame) != 2 {
		t.Errorf("got %v", frame)
	}
	v.wantClose(websocket.StatusNormalClosure, "process exited")
}

func TestFramesThatMakeNoSenseAreAnsweredAndTheConnectionStays(t *testing.T) {
	d := startDaemon(t, "")
	v := d.attach(d.newTerminal("{}"), "?pty=0")
	v.want("connected")
	for _, text := range []string{"nonsense", "{}", `{"type":"resize","cols":0,"rows":1}`, `{"type":"signal","signal":"SIGSEGV"}`, `{"type":"exit"}`} {
		v.send(text)
		if frame := v.want("error"); frame["code"] != "INVALID_FRAME" || frame["error"] == "" {
			t.Errorf("%s: got %v", text, frame)
		}
	}
	if err := v.conn.Write(v.ctx, websocket.MessageBinary, []byte{7, 7}); err != nil {
		t.Fatal(err)
	}
	v.want("error")
	v.send(`{"type":"ping"}`)
	if frame := v.want("pong"); len(frame) != 1 {
		t.Errorf("got %v", frame)
	}
	v.send(`{"type":"resize","cols":10,"rows":10}`) // no window here, and no error
	v.enter("echo still here")
	v.see("still here")
}

func TestPipeModeHasTwoStreams(t *testing.T) {
	d := startDaemon(t, "")
	v := d.attach(d.newTerminal(`{"command":"cat; echo oops >&2; exit 3"}`), "?pty=0")
	if frame := v.want("connected"); frame["mode"] != "pipe" {
		t.Errorf("got %v", frame)
	}
	v.enter("through cat")
	v.see("through cat\n")
	v.send(`{"type":"signal","signal":"SIGTERM"}`)
	if frame := v.want("exit"); frame["exit_code"] != -1.0 {
		t.Errorf("got %v", frame)
	}
	v = d.attach(d.newTerminal(`{"command":"echo out; echo oops >&2; exit 3"}`), "?pty=0")
	v.want("connected")
	if frame := v.want("exit"); frame["exit_code"] != 3.0 || v.stdout.String() != "out\n" || v.stderr.String() != "oops\n" {
		t.Errorf("got %v, %q, %q", frame, v.stdout.String(), v.stderr.String())
	}
}

func TestAClientThatComesBackMissesNothing(t *testing.T) {
	d := startDaemon(t, "")
	gate := filepath.Join(t.TempDir(), "gate")
	id := d.newTerminal(fmt.Sprintf(`{"command":"seq 1 20000; until [ -e %s ]; do sleep 0.01; done; seq 20001 40000"}`, gate))
	v := d.attach(id, "?pty=0")
	v.want("connected")
	for v.stdout.Len() < 5000 {
		if _, err := v.next(); err != nil {
			t.Fatal(err)
		}
	}
	_ = v.conn.CloseNow() // gone without a word
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again := d.attachWhenFree(id, fmt.Sprintf("?since=%d", v.stdout.Len()))
	if frame := again.want("connected"); frame["mode"] != "pipe" {
		t.Errorf("got %v", frame)
	}
	again.want("exit")
	if again.frames > 0 && again.offset != int64(v.stdout.Len()) { // what was written by now may also be nothing
		t.Errorf("replayed from %d, want %d", again.offset, v.stdout.Len())
	}
	all := v.stdout.String() + again.replay.String() + again.stdout.String()
	lines := strings.Split(strings.TrimSuffix(all, "\n"), "\n")
	for i, line := range lines {
		if line != fmt.Sprint(i+1) {
			t.Fatalf("line %d is %q", i+1, line)
		}
	}
	if offset, isRunning := d.offset(id); len(lines) != 40000 || offset != int64(len(all)) || isRunning {
		t.Errorf("%d lines, %d of %d bytes, running %v", len(lines), len(all), offset, isRunning)
	}
}

// attachWhenFree attaches once the daemon has seen that the client before is gone.
func (d *daemon) attachWhenFree(id, query string) *viewer {
	d.t.Helper()
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); runtime.Gosched() {
		v, response, err := d.dial(id, query)
		if err == nil {
			return v
		}
		if response == nil || response.StatusCode != http.StatusConflict {
			d.t.Fatal(err)
		}
	}
	d.t.Fatal("a client that is gone keeps its place")
	return nil
}

func TestAfterTheEndThereIsTheReplayAndTheExit(t *testing.T) {
	d := startDaemon(t, "")
	id := d.newTerminal(`{"command":"head -c 3000000 /dev/zero | tr '\\0' z; echo end; exit 5"}`)
	v := d.attach(id, "?pty=0")
	v.want("connected")
	v.want("exit")
	v.wantClose(websocket.StatusNormalClosure, "process exited")
	for range 2 {
		again := d.attachWhenFree(id, "")
		again.want("connected")
		if frame := again.want("exit"); frame["exit_code"] != 5.0 {
			t.Errorf("got %v", frame)
		}
		again.wantClose(websocket.StatusNormalClosure, "process exited")
		if again.offset != 3000004-1<<20 || again.replay.Len() != 1<<20 || !strings.HasSuffix(again.replay.String(), "zend\n") {
			t.Errorf("%d bytes from %d in %d frames", again.replay.Len(), again.offset, again.frames)
		}
	}
}

func TestASecondClientIsRefusedOrTakesOver(t *testing.T) {
	d := startDaemon(t, "")
	id := d.newTerminal("{}")
	first := d.attach(id, "")
	first.want("connected")
	_, response, err := d.dial(id, "")
	if err == nil || response.StatusCode != http.StatusConflict {
		t.Fatalf("got %v, %v", response, err)
	}
	var refused map[string]string
	if err := json.NewDecoder(response.Body).Decode(&refused); err != nil || refused["code"] != "ALREADY_CONNECTED" {
		t.Errorf("got %v, %v", refused, err)
	}
	first.enter("mark=ki''ngfisher; echo $mark")
	first.see("kingfisher")
	second := d.attach(id, "?takeover=1")
	second.want("connected")
	if !strings.Contains(second.replay.String(), "kingfisher") || second.offset != 0 {
		t.Errorf("replayed %q from %d", second.replay.String(), second.offset)
	}
	for {
		if _, err = first.next(); err != nil {
			break
		}
	}
	if websocket.CloseStatus(err) != 4001 || !strings.Contains(err.Error(), "TAKEN_OVER") {
		t.Errorf("the first client got %v", err)
	}
	second.enter("echo the same $mark")
	second.see("the same kingfisher")
}

func TestAShellThatCannotStartIsToldInAFrame(t *testing.T) {
	d := startDaemon(t, "")
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	id := d.newTerminal(`{"cwd":"` + dir + `"}`)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	v := d.attach(id, "")
	if frame := v.want("error"); frame["code"] != "START_FAILED" || frame["error"] == "" {
		t.Errorf("got %v", frame)
	}
	v.wantClose(websocket.StatusInternalError, "START_FAILED")
	if _, text := d.call("GET", "/pty/"+id, ""); !strings.Contains(text, `"launch_failed":true`) || !strings.Contains(text, `"running":false`) {
		t.Errorf("got %s", text)
	}
}

func TestDeleteTellsTheClientTheExit(t *testing.T) {
	d := startDaemon(t, "")
	id := d.newTerminal("{}")
	v := d.attach(id, "")
	v.want("connected")
	if response, _ := d.call("DELETE", "/pty/"+id, ""); response.StatusCode != 200 {
		t.Errorf("got %d", response.StatusCode)
	}
	v.want("exit")
	v.wantClose(websocket.StatusNormalClosure, "process exited")
}

func TestDeleteSendsAClientThatDoesNotReadAway(t *testing.T) {
	d := startDaemon(t, "")
	id := d.newTerminal(`{"command":"yes"}`)
	v := d.attach(id, "?pty=0")
	v.want("connected")
	if response, _ := d.call("DELETE", "/pty/"+id, ""); response.StatusCode != 200 {
		t.Errorf("got %d", response.StatusCode)
	}
	for {
		frame, err := v.next()
		if frame["code"] == "SESSION_GONE" || frame["type"] == "exit" {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAClientThatDoesNotReadCostsLittleAndHoldsNobodyElseUp(t *testing.T) {
	d := startDaemon(t, "")
	var slow []*viewer
	for range 20 {
		v := d.attach(d.newTerminal(`{"command":"yes"}`), "?pty=0")
		v.want("connected")
		slow = append(slow, v)
	}
	quick := d.attach(d.newTerminal("{}"), "")
	quick.want("connected")
	for i := range 200 { // long enough for the others to fill every buffer on the way
		quick.enter(fmt.Sprintf("echo n$((%d+1)).", i))
		quick.see(fmt.Sprintf("n%d.", i+1))
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	if limit := uint64(len(slow)+1)*(3<<20) + 16<<20; memory.HeapAlloc > limit {
		t.Errorf("%d bytes of heap for %d clients that do not read", memory.HeapAlloc, len(slow))
	}
}

func TestThousandsOfLinesComeThroughATerminal(t *testing.T) {
	d := startDaemon(t, "")
	v := d.attach(d.newTerminal(`{"command":"seq 1 30000"}`), "")
	v.want("connected")
	v.want("exit")
	lines := strings.Fields(v.stdout.String())
	if len(lines) != 30000 || lines[0] != "1" || lines[29999] != "30000" {
		t.Errorf("%d lines", len(lines))
	}
}

func TestShutdownEndsAConversation(t *testing.T) {
	d := startDaemon(t, "")
	v := d.attach(d.newTerminal("{}"), "")
	v.want("connected")
	d.connections.closeAll()
	for {
		if _, err := v.next(); err != nil {
			return
		}
	}
}

func TestAClientThatDoesNotAnswerPingsIsDropped(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		ctx := conn.CloseRead(r.Context())
		(&conversation{conn: conn}).keepAlive(ctx, time.Millisecond, 20*time.Millisecond)
	}))
	defer server.Close()
	conn, _, err := websocket.Dial(context.Background(), server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	select { // the client never reads, so it never answers
	case <-ended:
	case <-time.After(testTimeout):
		t.Error("still there")
	}
}
