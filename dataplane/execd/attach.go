// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"opensandbox.io/dataplane/terminal"
)

const (
	pingInterval  = 30 * time.Second
	readDeadline  = 60 * time.Second // of silence; what answers a ping is not silent
	writeDeadline = 10 * time.Second // for one message, to a client that does not read
	maxClientData = 1 << 20          // of one message
	maxReplayData = 1<<20 - 9        // of one message: with its head it is 1 MiB, the limit of common clients

	replayByte      = 0x03
	statusTakenOver = 4001
)

// Codes of error frames; RUNTIME_ERROR is also one.
const (
	codeSessionGone = "SESSION_GONE"
	codeStartFailed = "START_FAILED"
	codeStdinFailed = "STDIN_WRITE_FAILED"
	codeBadFrame    = "INVALID_FRAME"
	codeTakenOver   = "TAKEN_OVER"
)

// attachTerminal makes the request a WebSocket that carries a terminal. When the client goes away the
// shell goes on. The token is the protection; any origin may ask.
func (s *Server) attachTerminal(w http.ResponseWriter, r *http.Request) error {
	wanted, err := parseAttachRequest(r)
	if err != nil {
		return err
	}
	found, err := s.Terminals.Get(r.PathValue("id"))
	if err != nil {
		return terminalError(r, err)
	}
	// Before anybody is taken over, it must be certain that there will be somebody instead.
	if err := checkHandshake(w, r); err != nil {
		return err
	}
	client, err := found.Attach(wanted.since, wanted.takesOver)
	if err != nil {
		return terminalError(r, err)
	}
	defer client.Detach()
	ctx, end := s.connections.begin(r.Context())
	defer end()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil // Accept has answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxClientData)
	talk := &conversation{conn: conn, client: client, id: found.ID}
	talk.run(ctx, wanted.mode)
	return nil
}

// checkHandshake finds what websocket.Accept would refuse, while an error can still be answered as such.
func checkHandshake(w http.ResponseWriter, r *http.Request) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || !hasToken(r, "Connection", "upgrade") || !hasToken(r, "Upgrade", "websocket"):
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		return failf(http.StatusUpgradeRequired, CodeInvalidBody, "this route is a WebSocket: ask for an upgrade")
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		w.Header().Set("Sec-WebSocket-Version", "13")
		return failf(http.StatusBadRequest, CodeInvalidBody, "the version of WebSocket here is 13")
	case err != nil || len(key) != 16 || len(r.Header.Values("Sec-WebSocket-Key")) != 1:
		return failf(http.StatusBadRequest, CodeInvalidBody, "Sec-WebSocket-Key must be 16 bytes in base64")
	}
	return nil
}

func hasToken(r *http.Request, header, token string) bool {
	for _, line := range r.Header.Values(header) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// conversation is one client's WebSocket while it is attached.
type conversation struct {
	conn    *websocket.Conn
	client  *terminal.Client
	id      string
	message []byte // reused; only sendOutput and greet use it
}

// serverFrame is a text frame to the client.
type serverFrame struct {
	Type      string        `json:"type"`
	SessionID string        `json:"session_id,omitempty"`
	Mode      terminal.Mode `json:"mode,omitempty"`
	ExitCode  *int          `json:"exit_code,omitempty"`
	Code      string        `json:"code,omitempty"`
	Error     string        `json:"error,omitempty"`
}

func (c *conversation) run(ctx context.Context, mode terminal.Mode) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !c.greet(ctx, mode) {
		return
	}
	var others sync.WaitGroup
	others.Go(func() {
		defer cancel()
		c.listen(ctx)
	})
	others.Go(func() {
		defer cancel()
		c.keepAlive(ctx, pingInterval, readDeadline-pingInterval)
	})
	code, reason := c.sendOutput(ctx)
	c.client.Detach() // its place is free while the other side takes its time to say goodbye
	if code != 0 {
		_ = c.conn.Close(code, reason) // listen reads the answer
	}
	cancel()
	others.Wait()
}

// greet starts the shell when it is not started, and sends what the client missed.
func (c *conversation) greet(ctx context.Context, mode terminal.Mode) bool {
	mode, err := c.client.Launch(mode)
	if err != nil {
		code := codeStartFailed
		if errors.Is(err, terminal.ErrGone) {
			code = codeSessionGone
		}
		_ = c.sendError(ctx, code, err)
		_ = c.conn.Close(websocket.StatusInternalError, code)
		return false
	}
	offset, missed := c.client.Replay()
	for len(missed) > 0 {
		part := missed[:min(len(missed), maxReplayData)]
		c.message = binary.BigEndian.AppendUint64(append(c.message[:0], replayByte), uint64(offset))
		c.message = append(c.message, part...)
		if c.write(ctx, websocket.MessageBinary, c.message) != nil {
			return false
		}
		missed, offset = missed[len(part):], offset+int64(len(part))
	}
	c.message = nil // a replay is large, what follows is not
	return c.send(ctx, serverFrame{Type: "connected", SessionID: c.id, Mode: mode}) == nil
}

// sendOutput sends output until the shell ends or the client loses its place, and returns how to close the
// connection: 0 when it is broken.
func (c *conversation) sendOutput(ctx context.Context) (websocket.StatusCode, string) {
	for {
		select {
		case chunk, isOpen := <-c.client.Output():
			if !isOpen {
				code := c.client.Exit().Code
				_ = c.send(ctx, serverFrame{Type: "exit", ExitCode: &code})
				return websocket.StatusNormalClosure, "process exited"
			}
			c.message = append(append(c.message[:0], byte(chunk.Stream)), chunk.Data...)
			if c.write(ctx, websocket.MessageBinary, c.message) != nil {
				return 0, ""
			}
		case <-c.client.Gone():
			if errors.Is(c.client.Cause(), terminal.ErrTakenOver) {
				return statusTakenOver, codeTakenOver
			}
			_ = c.sendError(ctx, codeSessionGone, terminal.ErrGone)
			return websocket.StatusGoingAway, codeSessionGone
		case <-ctx.Done():
			return 0, ""
		}
	}
}

// listen does what the client asks for until it goes.
func (c *conversation) listen(ctx context.Context) {
	for {
		kind, message, err := c.conn.Read(ctx)
		if err != nil {
			return
		}
		frame, err := terminal.ParseFrame(kind == websocket.MessageBinary, message)
		if err != nil {
			err = c.sendError(ctx, codeBadFrame, err)
		} else {
			err = c.handle(ctx, frame)
		}
		if err != nil {
			return
		}
	}
}

// handle does one thing. What goes wrong with it is sent to the client; the error is that of sending.
func (c *conversation) handle(ctx context.Context, frame terminal.Frame) error {
	code := CodeRuntime
	var err error
	switch frame.Action {
	case terminal.Input:
		code, err = codeStdinFailed, c.client.Write(frame.Data)
	case terminal.Resize:
		err = c.client.Resize(frame.Cols, frame.Rows)
	case terminal.Signal:
		err = c.client.Signal(frame.Signal)
	case terminal.Ping:
		return c.send(ctx, serverFrame{Type: "pong"})
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, terminal.ErrGone) {
		code = codeSessionGone
	}
	return c.sendError(ctx, code, err)
}

// keepAlive pings until ctx ends or no answer comes within timeout.
func (c *conversation) keepAlive(ctx context.Context, interval, timeout time.Duration) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		waiting, cancel := context.WithTimeout(ctx, timeout)
		err := c.conn.Ping(waiting)
		cancel()
		if err != nil {
			return
		}
	}
}

func (c *conversation) sendError(ctx context.Context, code string, err error) error {
	return c.send(ctx, serverFrame{Type: "error", Code: code, Error: err.Error()})
}

func (c *conversation) send(ctx context.Context, frame serverFrame) error {
	text, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	return c.write(ctx, websocket.MessageText, text)
}

// write drops a client that does not take the message in time.
func (c *conversation) write(ctx context.Context, kind websocket.MessageType, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	return c.conn.Write(ctx, kind, message)
}
