// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/process"
)

// tailCursorHeader tells a reader of logs where to go on.
const tailCursorHeader = "EXECD-COMMANDS-TAIL-CURSOR"

// maxMillis keeps a timeout in milliseconds within time.Duration.
const maxMillis = int64(1<<63-1) / int64(time.Millisecond)

func (s *Server) commandRoutes(route func(string, handler)) {
	route("POST /command", s.runCommand)
	route("DELETE /command", s.interruptCommand)
	route("GET /command/{id}/logs", s.commandLogs)
	route("GET /command/{id}/output", s.commandOutput)
	route("POST /command/{id}/stdin", s.commandStdin)
}

type commandBody struct {
	ID         string          `json:"id"`
	Command    *string         `json:"command"`
	Argv       []text          `json:"argv"`
	Cwd        string          `json:"cwd"`
	Background bool            `json:"background"`
	Timeout    int64           `json:"timeout"`
	UID        *uint32         `json:"uid"`
	GID        *uint32         `json:"gid"`
	Envs       map[string]text `json:"envs"`
	Stdin      bool            `json:"stdin"`
}

// runCommand starts a command and streams it as it happens. When the client goes away the command runs
// on: its status, output and end can be asked for by its id.
func (s *Server) runCommand(w http.ResponseWriter, r *http.Request) error {
	var body commandBody
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	request, err := s.commandRequest(r, body)
	if err != nil {
		return err
	}
	return s.startCommand(w, r, request)
}

// startCommand starts a command and streams it until it ends; of one in the background, that it runs.
func (s *Server) startCommand(w http.ResponseWriter, r *http.Request, request command.Request) error {
	s.interpreter.open(request.Shell, request.Env)
	cmd, reader, err := s.Commands.Start(request)
	if errors.Is(err, command.ErrExists) {
		return failf(http.StatusConflict, CodeInvalidBody, "%v; read it with GET /command/%s/output", err, request.ID)
	}
	if err != nil {
		return failf(http.StatusServiceUnavailable, CodeUnavailable, "%v", err)
	}
	if cmd.IsBackground {
		streamBackground(w, cmd)
		return nil
	}
	streamLines(w, r, cmd.ID, cmd, reader, commandLines())
	return nil
}

func (b commandBody) check() error {
	isShell, isArgv := b.Command != nil && *b.Command != "", b.Argv != nil
	switch {
	case isShell == isArgv:
		return failf(http.StatusBadRequest, CodeInvalidBody, "give exactly one of command (shell text) and argv (a program and its arguments)")
	case isArgv && (len(b.Argv) == 0 || b.Argv[0] == ""):
		return failf(http.StatusBadRequest, CodeInvalidBody, "argv must begin with the name of a program")
	case slices.ContainsFunc(b.Argv, hasNUL[text]) || isShell && hasNUL(*b.Command):
		return failf(http.StatusBadRequest, CodeInvalidBody, "a command cannot contain NUL")
	case b.Timeout < 0 || b.Timeout > maxMillis:
		return failf(http.StatusBadRequest, CodeInvalidBody, "timeout is in milliseconds, from 1 to %d; leave it out for no limit", maxMillis)
	case b.GID != nil && b.UID == nil:
		return failf(http.StatusBadRequest, CodeInvalidBody, "gid needs uid")
	case b.ID != "" && !command.IsID(b.ID):
		return failf(http.StatusBadRequest, CodeInvalidBody, "id must be 32 hexadecimal digits in lower case; leave it out to get one")
	case b.Background && b.Stdin:
		return failf(http.StatusBadRequest, CodeInvalidBody, "a background command has no stdin")
	}
	if err := process.CheckVariables(b.envs()); err != nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, "envs: %v", err)
	}
	return nil
}

func (b commandBody) envs() map[string]string {
	envs := make(map[string]string, len(b.Envs))
	for name, value := range b.Envs {
		envs[name] = string(value)
	}
	return envs
}

func (b commandBody) argv() []string {
	var argv []string
	for _, argument := range b.Argv {
		argv = append(argv, string(argument))
	}
	return argv
}

func hasNUL[T ~string](s T) bool { return strings.ContainsRune(string(s), 0) }

func (s *Server) commandRequest(r *http.Request, body commandBody) (command.Request, error) {
	identity, err := identityOf(body.UID, body.GID)
	if err != nil {
		return command.Request{}, err
	}
	env := s.Environ.For(identity, body.envs())
	for name, value := range traceVariables(r.Header) {
		env[name] = value
	}
	dir, err := existingDirectory(body.Cwd, env)
	if err != nil {
		return command.Request{}, err
	}
	request := command.Request{
		ID: body.ID, Argv: body.argv(), Dir: dir, Env: env, Identity: identity,
		Timeout:  time.Duration(body.Timeout) * time.Millisecond,
		HasStdin: body.Stdin, IsBackground: body.Background,
	}
	if body.Command != nil {
		request.Shell = *body.Command
	}
	return request, nil
}

// identityOf is who uid and gid name; nil when neither is given. The highest number is the kernel's
// word for "unchanged" and so nobody's.
func identityOf(uid, gid *uint32) (*process.Identity, error) {
	const nobodys = 1<<32 - 1
	if uid == nil {
		return nil, nil
	}
	if *uid == nobodys || gid != nil && *gid == nobodys {
		return nil, failf(http.StatusBadRequest, CodeInvalidBody, "uid and gid go up to %d", uint32(nobodys-1))
	}
	identity := process.UserIdentity(*uid)
	if gid != nil {
		identity = identity.WithGroup(*gid)
	}
	return identity, nil
}

// existingDirectory expands a cwd and makes sure that a process can start in it.
func existingDirectory(cwd string, env map[string]string) (string, error) {
	if cwd == "" {
		return "", nil
	}
	dir, err := process.ExpandPath(cwd, env)
	if err != nil {
		return "", failf(http.StatusBadRequest, CodeInvalidBody, "cwd: %v", err)
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return "", failf(http.StatusBadRequest, CodeInvalidBody, "cwd %s is not an existing directory; make it with POST /directories", dir)
	}
	return dir, nil
}

// streamBackground says that the command was started, which for a background command is all.
func streamBackground(w http.ResponseWriter, cmd *command.Command) {
	stream := event.NewStream(w)
	defer stream.Close()
	now := time.Now()
	frames := event.AppendText(nil, event.Init, []byte(cmd.ID), now, -1)
	if !cmd.IsRunning() && cmd.Result().StartFailed {
		frames = appendResult(frames, cmd.Result())
	} else {
		frames = event.AppendComplete(frames, now.Sub(cmd.Started), now)
	}
	_ = stream.Send(frames) // the command runs whether or not its client hears of it
}

func (s *Server) interruptCommand(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("id")
	if id == "" {
		return failf(http.StatusBadRequest, CodeMissingQuery, "query id is missing: the id is the text of the init event")
	}
	var err error
	if cmd, unknown := s.Commands.Get(id); unknown == nil {
		err = cmd.Interrupt()
	} else {
		err = s.Sessions.Interrupt(id)
	}
	if err != nil {
		return failf(http.StatusInternalServerError, CodeRuntime, "interrupt %s: %v", id, err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

type statusBody struct {
	ID         string     `json:"id"`
	Content    string     `json:"content"`
	Running    bool       `json:"running"`
	ExitCode   *int       `json:"exit_code,omitempty"`
	Error      string     `json:"error,omitempty"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

func (s *Server) commandStatus(w http.ResponseWriter, r *http.Request) error {
	cmd, err := s.command(r)
	if err != nil {
		return err
	}
	status := statusBody{ID: cmd.ID, Content: cmd.Content(), Running: cmd.IsRunning(), StartedAt: cmd.Started}
	if !status.Running {
		result := cmd.Result()
		status.ExitCode, status.FinishedAt = &result.ExitCode, &result.Ended
		if !result.Succeeded() {
			status.Error = result.Reason
		}
	}
	writeJSON(w, http.StatusOK, status)
	return nil
}

func (s *Server) command(r *http.Request) (*command.Command, error) {
	cmd, err := s.Commands.Get(r.PathValue("id"))
	if err != nil {
		return nil, failf(http.StatusNotFound, CodeInvalidBody, "no command has the id %q; ended commands are kept for a day", r.PathValue("id"))
	}
	return cmd, nil
}

// commandLogs sends the bytes there are from a cursor on, and in a header the cursor after them.
func (s *Server) commandLogs(w http.ResponseWriter, r *http.Request) error {
	cmd, err := s.command(r)
	if err != nil {
		return err
	}
	if !cmd.IsBackground {
		return failf(http.StatusBadRequest, CodeInvalidBody, "%s is not a background command; read it with GET /command/%s/output", cmd.ID, cmd.ID)
	}
	cursor, err := cursorOf(r, "cursor", 0)
	if err != nil {
		return err
	}
	end := cmd.Journal.Size()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set(tailCursorHeader, strconv.FormatInt(max(end, cursor), 10))
	w.WriteHeader(http.StatusOK)
	reader := cmd.Journal.Read(cursor)
	defer reader.Close()
	response := http.NewResponseController(w)
	defer response.SetWriteDeadline(time.Time{}) // the connection may serve other requests
	for {
		chunk, err := reader.Poll()
		if err != nil || chunk.Offset >= end || response.SetWriteDeadline(time.Now().Add(s.followerTimeout())) != nil {
			return nil
		}
		data := chunk.Data[:min(int64(len(chunk.Data)), end-chunk.Offset)]
		if _, err := w.Write(data); err != nil {
			return nil // the client went away
		}
	}
}

// commandStdin copies the body to the command as it comes.
func (s *Server) commandStdin(w http.ResponseWriter, r *http.Request) error {
	cmd, err := s.command(r)
	if err != nil {
		return err
	}
	closes, err := boolQuery(r, "close", false)
	if err != nil {
		return err
	}
	err = cmd.WriteStdin(r.Context(), nil) // also an empty body needs somebody to read it
	buffer := make([]byte, 32<<10)
	for err == nil {
		n, readErr := r.Body.Read(buffer)
		if n > 0 {
			err = cmd.WriteStdin(r.Context(), buffer[:n])
		}
		if err != nil || readErr != nil {
			if err == nil && !errors.Is(readErr, io.EOF) {
				return failf(http.StatusBadRequest, CodeInvalidBody, "read body: %v", readErr)
			}
			break
		}
	}
	if err == nil && closes {
		err = cmd.CloseStdin()
	}
	if err != nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, "%v; start the command with \"stdin\": true to write to it while it runs", err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
