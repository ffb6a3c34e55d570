// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"net/http"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const noIsolation = "isolated runs need namespaces of their own, and a sandbox's security profile does not let this daemon make any; " +
	"use another sandbox for code that must be kept apart"

// isolatedRoutes answers for isolated runs, which cannot be done safely here: a sandbox may not make
// namespaces.
func (s *Server) isolatedRoutes(route func(string, handler)) {
	route("GET /v1/isolated/capabilities", isolationCapabilities)
	for _, pattern := range []string{
		"POST /v1/isolated/session",
		"GET /v1/isolated/sessions",
		"GET /v1/isolated/session/{id}",
		"DELETE /v1/isolated/session/{id}",
		"POST /v1/isolated/session/{id}/run",
		"GET /v1/isolated/session/{id}/runs/{run}",
		"GET /v1/isolated/session/{id}/runs/{run}/logs",
		"GET /v1/isolated/session/{id}/files/info",
		"DELETE /v1/isolated/session/{id}/files",
		"POST /v1/isolated/session/{id}/files/permissions",
		"POST /v1/isolated/session/{id}/files/mv",
		"GET /v1/isolated/session/{id}/files/search",
		"POST /v1/isolated/session/{id}/files/replace",
		"POST /v1/isolated/session/{id}/files/upload",
		"GET /v1/isolated/session/{id}/files/download",
		"GET /v1/isolated/session/{id}/files/checksum",
		"GET /v1/isolated/session/{id}/files/watch",
		"GET /v1/isolated/session/{id}/directories/list",
		"POST /v1/isolated/session/{id}/directories",
		"DELETE /v1/isolated/session/{id}/directories",
		"GET /v1/isolated/session/{id}/directories/archive",
		"POST /v1/isolated/session/{id}/directories/archive",
	} {
		route(pattern, notIsolated)
	}
	route("POST /v1/isolated/session/{id}/commit", notSupportedIsolated)
	route("GET /v1/isolated/session/{id}/diff", notSupportedIsolated)
}

// notSupportedIsolated answers for what the contract refuses even where isolated runs can be done.
func notSupportedIsolated(http.ResponseWriter, *http.Request) error {
	return failf(http.StatusServiceUnavailable, CodeNotSupported, "%s", noIsolation)
}

func notIsolated(http.ResponseWriter, *http.Request) error {
	return failf(http.StatusServiceUnavailable, CodeUnavailable, "%s", noIsolation)
}

// capabilities has no field that can be null: clients do not allow it.
type capabilities struct {
	Available         bool      `json:"available"`
	Isolator          string    `json:"isolator"`
	Version           string    `json:"version"`
	Message           string    `json:"message"`
	SetprivAvailable  bool      `json:"setpriv_available"`
	UsernsAvailable   bool      `json:"userns_available"`
	IsCommitSupported bool      `json:"commit_supported"`
	IsDiffSupported   bool      `json:"diff_supported"`
	Hardening         hardening `json:"hardening"`
}

type hardening struct {
	InitMode     string  `json:"init_mode"`
	SignalShield bool    `json:"signal_shield"`
	CapDrop      measure `json:"cap_drop"`
	Seccomp      measure `json:"seccomp"`
	Landlock     measure `json:"landlock"`
	EBPF         measure `json:"ebpf"`
}

// measure is one way of hardening an isolated run.
type measure struct {
	State   string `json:"state"`
	Message string `json:"message"`
}

func isolationCapabilities(w http.ResponseWriter, _ *http.Request) error {
	unsupported := measure{State: "unsupported", Message: "there are no isolated runs to harden"}
	writeJSON(w, http.StatusOK, capabilities{
		Isolator: "none",
		Message:  noIsolation,
		Hardening: hardening{
			InitMode: initMode(), CapDrop: unsupported, Seccomp: unsupported, Landlock: unsupported, EBPF: unsupported,
		},
	})
	return nil
}

// initMode is how orphans come to this daemon: as PID 1, as subreaper or not at all.
func initMode() string {
	if os.Getpid() == 1 {
		return "pid1"
	}
	var isSubreaper int32
	if unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&isSubreaper)), 0, 0, 0) == nil && isSubreaper != 0 {
		return "subreaper"
	}
	return "none"
}
