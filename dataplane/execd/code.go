// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/kernel"
	"opensandbox.io/dataplane/process"
)

func (s *Server) codeRoutes(route func(string, handler)) {
	route("POST /code/context", s.createContext)
	route("GET /code/contexts", s.listContexts)
	route("DELETE /code/contexts", s.deleteContexts)
	route("GET /code/contexts/{id}", s.getContext)
	route("DELETE /code/contexts/{id}", s.deleteContext)
	route("POST /code", s.runCode)
	route("DELETE /code", s.interruptCode)
}

type contextBody struct {
	ID       string `json:"id"`
	Language string `json:"language"`
}

func describe(c *kernel.Context) contextBody { return contextBody{ID: c.ID, Language: c.Language} }

func (s *Server) createContext(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Language string          `json:"language"`
		Cwd      string          `json:"cwd"`
		Envs     map[string]text `json:"envs"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if body.Language == "" {
		return failf(http.StatusBadRequest, CodeInvalidBody, "language is missing; python, javascript, typescript, java, go or bash, say")
	}
	envs := commandBody{Envs: body.Envs}.envs()
	if err := process.CheckVariables(envs); err != nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, "envs: %v", err)
	}
	dir, err := s.madeDirectory(body.Cwd)
	if err != nil {
		return err
	}
	made, err := s.Contexts.Create(body.Language, dir, envs)
	if err != nil {
		return contextError(err)
	}
	if r.Context().Err() != nil { // the client has gone, and nobody else knows of it
		_ = s.Contexts.Delete(made.ID)
		return nil
	}
	writeJSON(w, http.StatusOK, describe(made))
	return nil
}

// madeDirectory is the expanded cwd of something that stays; it is made when it is missing.
func (s *Server) madeDirectory(cwd string) (string, error) {
	if cwd == "" {
		return "", nil
	}
	expanded, err := process.ExpandPath(cwd, s.Environ.For(nil, nil))
	if err != nil {
		return "", failf(http.StatusBadRequest, CodeInvalidBody, "cwd: %v", err)
	}
	dir, err := filepath.Abs(expanded)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", failf(http.StatusBadRequest, CodeInvalidBody, "cwd: %v", err)
	}
	return dir, nil
}

// contextError is the answer to a call for a context that could not be done.
func contextError(err error) error {
	switch {
	case errors.Is(err, kernel.ErrUnknown):
		return failf(http.StatusInternalServerError, CodeRuntime, "no such context; make one with POST /code/context")
	case errors.Is(err, kernel.ErrNoKernel):
		return failf(http.StatusNotImplemented, CodeNotSupported, "%v", err)
	}
	return failf(http.StatusInternalServerError, CodeRuntime, "%v", err)
}

func (s *Server) listContexts(w http.ResponseWriter, r *http.Request) error {
	bodies := []contextBody{}
	for _, one := range s.Contexts.List(r.URL.Query().Get("language")) {
		bodies = append(bodies, describe(one))
	}
	writeJSON(w, http.StatusOK, bodies)
	return nil
}

func (s *Server) deleteContexts(w http.ResponseWriter, r *http.Request) error {
	language := r.URL.Query().Get("language")
	if language == "" {
		return failf(http.StatusBadRequest, CodeMissingQuery, "query language is missing: whose contexts to delete")
	}
	s.Contexts.DeleteLanguage(language)
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) getContext(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Contexts.Get(r.PathValue("id"))
	if err != nil {
		return unknownContext(r)
	}
	writeJSON(w, http.StatusOK, describe(found))
	return nil
}

func (s *Server) deleteContext(w http.ResponseWriter, r *http.Request) error {
	if s.Contexts.Delete(r.PathValue("id")) != nil {
		return unknownContext(r)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func unknownContext(r *http.Request) error {
	return failf(http.StatusNotFound, CodeContextNotFound, "no context has the id %q; make one with POST /code/context", r.PathValue("id"))
}

type codeBody struct {
	Code    *string `json:"code"`
	Timeout int64   `json:"timeout"`
	Context struct {
		ID       string `json:"id"`
		Language string `json:"language"`
	} `json:"context"`
}

// runCode runs code in a context, after the runs that were asked for before it, and streams it as
// it happens. When the client goes away while it waits for its turn nothing is run; later the run goes
// on without it.
func (s *Server) runCode(w http.ResponseWriter, r *http.Request) error {
	var body codeBody
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if body.Code == nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, "code is missing")
	}
	if body.Timeout < 0 || body.Timeout > maxMillis {
		return failf(http.StatusBadRequest, CodeInvalidBody, "timeout is in milliseconds, from 1 to %d; leave it out for no limit", maxMillis)
	}
	switch language := body.Context.Language; {
	case body.Context.ID == "" && (language == "" || language == "command" || language == "background-command"):
		return s.runCodeAsCommand(w, r, body)
	case body.Context.ID == "" && language == "sql":
		return failf(http.StatusNotImplemented, CodeNotSupported, "there is no sql here; use a database's client in python or bash")
	}
	found, err := s.contextOf(body)
	if err != nil {
		return contextError(err)
	}
	request := kernel.Request{Code: *body.Code, Env: traceVariables(r.Header), Timeout: time.Duration(body.Timeout) * time.Millisecond}
	running, err := found.Start(r.Context(), request)
	if errors.Is(err, context.Canceled) {
		return nil // the client left before its turn: nobody to answer
	}
	if err != nil {
		return contextError(err)
	}
	streamCode(w, r, found.ID, running)
	return nil
}

func (s *Server) contextOf(body codeBody) (*kernel.Context, error) {
	if body.Context.ID != "" {
		return s.Contexts.Get(body.Context.ID)
	}
	return s.Contexts.Default(body.Context.Language)
}

// runCodeAsCommand is for code that names no language: it is shell text.
func (s *Server) runCodeAsCommand(w http.ResponseWriter, r *http.Request, body codeBody) error {
	asCommand := commandBody{Command: body.Code, Timeout: body.Timeout, Background: body.Context.Language == "background-command"}
	if err := asCommand.check(); err != nil {
		return err
	}
	request, err := s.commandRequest(r, asCommand)
	if err != nil {
		return err
	}
	return s.startCommand(w, r, request)
}

// streamCode sends a run from its beginning to its end. Events that are there at once are sent at
// once.
func streamCode(w http.ResponseWriter, r *http.Request, id string, running *kernel.Run) {
	defer running.Abandon()
	stream := event.NewStream(w)
	defer stream.Close()
	frames := event.AppendText(nil, event.Init, []byte(id), time.Now(), -1)
	for {
		if stream.Send(frames) != nil {
			return
		}
		next, err := running.Next(r.Context())
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = stream.Send(appendOutcome(nil, running.Outcome())) // nobody is left to tell when it fails
			}
			return
		}
		frames = appendEvent(frames[:0], next)
		for isMore := true; isMore && len(frames) < 64<<10; {
			if next, isMore = running.Poll(); isMore {
				frames = appendEvent(frames, next)
			}
		}
	}
}

func appendEvent(frames []byte, e kernel.Event) []byte {
	if e.Result == nil {
		return event.AppendOutput(frames, e.Kind, e.Text, e.At)
	}
	if e.Result.Count > 0 {
		frames = event.AppendCount(frames, e.Result.Count, e.At)
	}
	return event.AppendResult(frames, event.Value{Data: e.Result.Data, DisplayID: e.Result.DisplayID, IsUpdate: e.Result.IsUpdate}, e.At)
}

func appendOutcome(frames []byte, outcome kernel.Outcome) []byte {
	if outcome.Error == nil {
		return event.AppendComplete(frames, outcome.Ended.Sub(outcome.Started), outcome.Ended)
	}
	return event.AppendError(frames, *outcome.Error, outcome.Ended)
}

func (s *Server) interruptCode(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("id")
	if id == "" {
		return failf(http.StatusBadRequest, CodeMissingQuery, "query id is missing: the id is the text of the init event")
	}
	found, err := s.Contexts.Get(id)
	if err == nil {
		err = found.Interrupt()
	} else if cmd, unknown := s.Commands.Get(id); unknown == nil { // code without a language
		err = cmd.Interrupt()
	}
	if err != nil {
		return failf(http.StatusInternalServerError, CodeRuntime, "interrupt %s: %v", id, err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
