// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"opensandbox.io/dataplane/terminal"
)

// codeAlreadyConnected is the one code of the error body that only terminals use.
const codeAlreadyConnected = "ALREADY_CONNECTED"

func (s *Server) terminalRoutes(route func(string, handler)) {
	route("POST /pty", s.createTerminal)
	route("GET /pty/{id}", s.describeTerminal)
	route("DELETE /pty/{id}", s.deleteTerminal)
	route("GET /pty/{id}/ws", s.attachTerminal)
}

func (s *Server) createTerminal(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Cwd     string `json:"cwd"`
		Command string `json:"command"`
		Cols    *int   `json:"cols"`
		Rows    *int   `json:"rows"`
	}
	if r.ContentLength != 0 {
		if err := readJSON(w, r, &body); err != nil {
			return err
		}
	}
	cols, colsErr := terminalSize(body.Cols)
	rows, rowsErr := terminalSize(body.Rows)
	if err := errors.Join(colsErr, rowsErr); err != nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, "%v", err)
	}
	spec := terminal.Spec{Cwd: body.Cwd, Command: body.Command, Env: traceVariables(r.Header), Cols: cols, Rows: rows}
	created, err := s.Terminals.Create(spec)
	if err != nil {
		return terminalError(r, err)
	}
	writeJSON(w, http.StatusCreated, map[string]string{"session_id": created.ID})
	return nil
}

// terminalSize is a count of columns or rows; 0 when it is not given.
func terminalSize(given *int) (uint16, error) {
	if given == nil {
		return 0, nil
	}
	if *given < 1 || *given > math.MaxUint16 {
		return 0, fmt.Errorf("cols and rows must be 1..%d", math.MaxUint16)
	}
	return uint16(*given), nil
}

func (s *Server) describeTerminal(w http.ResponseWriter, r *http.Request) error {
	found, err := s.Terminals.Get(r.PathValue("id"))
	if err != nil {
		return terminalError(r, err)
	}
	status := found.Status()
	writeJSON(w, http.StatusOK, map[string]any{
		"session_id":       found.ID,
		"running":          status.IsRunning,
		"output_offset":    status.OutputOffset,
		"launch_attempted": status.LaunchAttempted,
		"launch_failed":    status.LaunchFailed,
	})
	return nil
}

// deleteTerminal answers when the shell and what it started have ended.
func (s *Server) deleteTerminal(w http.ResponseWriter, r *http.Request) error {
	if err := s.Terminals.Delete(r.PathValue("id")); err != nil {
		return terminalError(r, err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// terminalError says an error of the terminal package in the contract's words.
func terminalError(r *http.Request, err error) error {
	switch {
	case errors.Is(err, terminal.ErrInvalid):
		return failf(http.StatusBadRequest, CodeInvalidBody, "%v", err)
	case errors.Is(err, terminal.ErrNotFound), errors.Is(err, terminal.ErrGone):
		return failf(http.StatusNotFound, CodeContextNotFound, "no terminal has the id %q; make one with POST /pty", r.PathValue("id"))
	case errors.Is(err, terminal.ErrAttached):
		return failf(http.StatusConflict, codeAlreadyConnected, "%v; take it over with takeover=1", err)
	}
	return failf(http.StatusInternalServerError, CodeRuntime, "%v", err)
}

// attachRequest is what a client asks for when it attaches.
type attachRequest struct {
	mode      terminal.Mode
	since     int64
	takesOver bool
}

func parseAttachRequest(r *http.Request) (attachRequest, error) {
	wanted := attachRequest{mode: terminal.PTY}
	isTerminal, err := boolQuery(r, "pty", true)
	if err != nil {
		return wanted, err
	}
	if !isTerminal {
		wanted.mode = terminal.Pipe
	}
	if wanted.takesOver, err = boolQuery(r, "takeover", false); err != nil {
		return wanted, err
	}
	if query := r.URL.Query(); query.Has("since") {
		wanted.since, err = strconv.ParseInt(query.Get("since"), 10, 64)
		if err != nil || wanted.since < 0 {
			return wanted, failf(http.StatusBadRequest, CodeInvalidBody, "since must be a count of bytes, 0 or more")
		}
	}
	return wanted, nil
}
