// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"opensandbox.io/dataplane/session"
)

// defaultRunTimeout bounds a run whose client names no limit.
const defaultRunTimeout = 24 * time.Hour

func (s *Server) sessionRoutes(route func(string, handler)) {
	route("POST /session", s.createSession)
	route("POST /session/{id}/run", s.runInSession)
	route("DELETE /session/{id}", s.deleteSession)
}

func (s *Server) createSession(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Cwd string `json:"cwd"`
	}
	if r.ContentLength != 0 {
		if err := readJSON(w, r, &body); err != nil {
			return err
		}
	}
	dir, err := s.madeDirectory(body.Cwd)
	if err != nil {
		return err
	}
	created, err := s.Sessions.Create(dir)
	if err != nil {
		return failf(http.StatusInternalServerError, CodeRuntime, "%v", err)
	}
	writeJSON(w, http.StatusOK, map[string]string{"session_id": created.ID})
	return nil
}

// runInSession runs text in the session's shell, after the runs that were asked for before it. When
// the client goes away while it waits for its turn nothing is run; later the run goes on without it.
func (s *Server) runInSession(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Command string `json:"command"`
		Cwd     string `json:"cwd"`
		Timeout int64  `json:"timeout"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	if body.Command == "" || hasNUL(body.Command) {
		return failf(http.StatusBadRequest, CodeInvalidBody, "command must be shell text without NUL")
	}
	if body.Timeout < 0 || body.Timeout > maxMillis {
		return failf(http.StatusBadRequest, CodeInvalidBody, "timeout is in milliseconds, from 0 to %d", maxMillis)
	}
	dir := body.Cwd // a relative one starts from where the shell is, which only the shell knows
	if dir != "" && (strings.HasPrefix(dir, "/") || strings.ContainsAny(dir, "~$\x00")) {
		var err error
		if dir, err = existingDirectory(dir, s.Environ.For(nil, nil)); err != nil {
			return err
		}
	}
	found, err := s.Sessions.Get(r.PathValue("id"))
	if err != nil {
		return failf(http.StatusInternalServerError, CodeRuntime, "no session has the id %q; make one with POST /session", r.PathValue("id"))
	}
	timeout := time.Duration(body.Timeout) * time.Millisecond
	if timeout == 0 {
		timeout = defaultRunTimeout
	}
	request := session.Request{Shell: body.Command, Dir: dir, Env: traceVariables(r.Header), Timeout: timeout}
	running, reader, err := found.Start(r.Context(), request)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil // the client left before its turn: nobody to answer
		}
		return failf(http.StatusInternalServerError, CodeRuntime, "session %s: %v", found.ID, err)
	}
	streamLines(w, r, found.ID, running, reader, sessionLines())
	return nil
}

func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request) error {
	if s.Sessions.Delete(r.PathValue("id")) != nil {
		return unknownSession(r)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func unknownSession(r *http.Request) error {
	return failf(http.StatusNotFound, CodeContextNotFound, "no session has the id %q; make one with POST /session", r.PathValue("id"))
}
