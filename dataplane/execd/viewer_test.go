// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// viewer is a client of a terminal.
type viewer struct {
	t      *testing.T
	conn   *websocket.Conn
	ctx    context.Context
	stdout bytes.Buffer
	stderr bytes.Buffer
	replay bytes.Buffer
	offset int64 // of the first replayed byte
	frames int   // of replay
}

func (d *daemon) newTerminal(body string, headers ...string) string {
	d.t.Helper()
	response, text := d.call("POST", "/pty", body, headers...)
	var created struct {
		SessionID string `json:"session_id"`
	}
	if err := json.Unmarshal([]byte(text), &created); err != nil || response.StatusCode != http.StatusCreated {
		d.t.Fatalf("got %d %s", response.StatusCode, text)
	}
	return created.SessionID
}

func (d *daemon) offset(id string) (offset int64, isRunning bool) {
	d.t.Helper()
	_, text := d.call("GET", "/pty/"+id, "")
	var status struct {
		Offset  int64 `json:"output_offset"`
		Running bool
	}
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		d.t.Fatalf("%v in %s", err, text)
	}
	return status.Offset, status.Running
}

func (d *daemon) dial(id, query string) (*viewer, *http.Response, error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	d.t.Cleanup(cancel)
	conn, response, err := websocket.Dial(ctx, "ws://"+d.addr+"/pty/"+id+"/ws"+query, &websocket.DialOptions{
		HTTPClient: d.client, HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}},
	})
	if err != nil {
		return nil, response, err
	}
	conn.SetReadLimit(1 << 20)
	d.t.Cleanup(func() { _ = conn.CloseNow() })
	return &viewer{t: d.t, conn: conn, ctx: ctx, offset: -1}, response, nil
}

func (d *daemon) attach(id, query string) *viewer {
	d.t.Helper()
	v, _, err := d.dial(id, query)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

// next reads one message; text frames come back parsed, binary ones are collected.
func (v *viewer) next() (map[string]any, error) {
	v.t.Helper()
	kind, message, err := v.conn.Read(v.ctx)
	if err != nil {
		return nil, err
	}
	if kind == websocket.MessageText {
		var frame map[string]any
		if err := json.Unmarshal(message, &frame); err != nil {
			v.t.Fatalf("%v in %q", err, message)
		}
		return frame, nil
	}
	switch message[0] {
	case 1:
		v.stdout.Write(message[1:])
	case 2:
		v.stderr.Write(message[1:])
	case 3:
		at := int64(binary.BigEndian.Uint64(message[1:9]))
		if v.offset < 0 {
			v.offset = at
		} else if at != v.offset+int64(v.replay.Len()) {
			v.t.Errorf("a replay goes on at %d", at)
		}
		v.frames++
		v.replay.Write(message[9:])
	default:
		v.t.Fatalf("unknown frame %q", message)
	}
	if message[0] != 3 && len(message) > 32<<10 {
		v.t.Errorf("a frame of %d bytes", len(message))
	}
	return nil, nil
}

// want reads until a text frame of this type.
func (v *viewer) want(kind string) map[string]any {
	v.t.Helper()
	for {
		frame, err := v.next()
		if err != nil {
			v.t.Fatalf("%v before %s; stdout %.200q", err, kind, v.stdout.String())
		}
		if frame["type"] == kind {
			return frame
		}
		if frame != nil {
			v.t.Fatalf("got %v, want %s", frame, kind)
		}
	}
}

// see reads until stdout contains text, and forgets it up to there.
func (v *viewer) see(text string) {
	v.t.Helper()
	for !strings.Contains(v.stdout.String(), text) {
		if frame, err := v.next(); err != nil || frame != nil {
			v.t.Fatalf("got %v, %v before %q; stdout %.200q", frame, err, text, v.stdout.String())
		}
	}
	v.stdout.Next(strings.Index(v.stdout.String(), text) + len(text))
}

func (v *viewer) send(text string) {
	v.t.Helper()
	if err := v.conn.Write(v.ctx, websocket.MessageText, []byte(text)); err != nil {
		v.t.Fatal(err)
	}
}

// enter types a line with the binary frame.
func (v *viewer) enter(line string) {
	v.t.Helper()
	if err := v.conn.Write(v.ctx, websocket.MessageBinary, []byte("\x00"+line+"\n")); err != nil {
		v.t.Fatal(err)
	}
}

// wantClose reads the close frame that must come next.
func (v *viewer) wantClose(code websocket.StatusCode, reason string) {
	v.t.Helper()
	frame, err := v.next()
	var closed websocket.CloseError
	if !asClose(err, &closed) || closed.Code != code || closed.Reason != reason {
		v.t.Errorf("got %v, %v, want close %d %s", frame, err, code, reason)
	}
}

func asClose(err error, closed *websocket.CloseError) bool {
	code := websocket.CloseStatus(err)
	if code == -1 {
		return false
	}
	text := err.Error()
	closed.Code = code
	if at := strings.Index(text, `reason = "`); at >= 0 {
		closed.Reason, _, _ = strings.Cut(text[at+len(`reason = "`):], `"`)
	}
	return true
}
