// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Codes of the error body. The contract fixes these words.
const (
	CodeInvalidBody     = "INVALID_REQUEST_BODY"
	CodeMissingQuery    = "MISSING_QUERY"
	CodeRuntime         = "RUNTIME_ERROR"
	CodeInvalidFile     = "INVALID_FILE"
	CodeInvalidContent  = "INVALID_FILE_CONTENT"
	CodeInvalidMetadata = "INVALID_FILE_METADATA"
	CodeFileNotFound    = "FILE_NOT_FOUND"
	CodeContextNotFound = "CONTEXT_NOT_FOUND"
	CodeSessionNotFound = "SESSION_NOT_FOUND"
	CodeNotSupported    = "NOT_SUPPORTED"
	CodeUnavailable     = "SERVICE_UNAVAILABLE"
	CodeUnknown         = "UNKNOWN"
)

// An apiError is an answer other than success: its status and the two fields of the error body.
type apiError struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *apiError) Error() string { return e.Message }

func failf(status int, code, format string, args ...any) error {
	return &apiError{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// handler is an HTTP handler that may fail before its first byte of output.
type handler func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP makes a handler's error the response; it is the one place that writes an error body.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h(w, r)
	if err == nil {
		return
	}
	var api *apiError
	if !errors.As(err, &api) {
		api = &apiError{Status: http.StatusInternalServerError, Code: CodeUnknown, Message: err.Error()}
	}
	writeJSON(w, api.Status, api)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client went away: nobody is left to tell
}
