// SPDX-License-Identifier: Apache-2.0

package execd

import "net/http"

// readiness is always the same here: a daemon starts with everything it needs, so it is initialized
// once it answers, and it has never been handed to another sandbox.
type readiness struct {
	Initialized bool   `json:"initialized"`
	SandboxID   string `json:"sandboxId"`
	Generation  int    `json:"generation"`
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, readiness{Initialized: true, SandboxID: s.SandboxID})
	return nil
}

func (s *Server) initialize(http.ResponseWriter, *http.Request) error {
	return failf(http.StatusNotImplemented, CodeNotSupported,
		"a running daemon cannot be handed to another sandbox yet; start one per sandbox")
}
