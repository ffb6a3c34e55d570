// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
)

// Codes of what ingress answers by itself.
const (
	codeBadRoute           = "INVALID_ROUTE"
	codeInvalidPort        = "INVALID_PORT"
	codeMethodNotAllowed   = "METHOD_NOT_ALLOWED"
	codeNotFound           = "SANDBOX_NOT_FOUND"
	codeNotRunning         = "SANDBOX_NOT_RUNNING"
	codeMissingKey         = "MISSING_API_KEY"
	codeInvalidKey         = "INVALID_API_KEY"
	codeNoAccess           = "MISSING_OR_INVALID_SECURE_ACCESS"
	codeConnectionFailed   = "BACKEND_CONNECTION_FAILED"
	codeTimeout            = "BACKEND_TIMEOUT"
	codeResponseFailed     = "BACKEND_RESPONSE_FAILED"
	codeEgressUnavailable  = "EGRESS_UNAVAILABLE"
	codeServerUnavailable  = "SERVER_UNAVAILABLE"
	codeBadBody            = "INVALID_REQUEST_BODY"
	codeTooManyConnections = "TOO_MANY_CONNECTIONS"
	codeBodyTooLong        = "GENERAL::BODY_TOO_LARGE" // as the API itself says it
)

var errBodyTooLong = &apiError{http.StatusRequestEntityTooLarge, codeBodyTooLong, fmt.Sprintf("The body is longer than %d bytes.", maxAPIBody)}

// apiError is an answer of the contract's shape.
type apiError struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func badRoute(format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, codeBadRoute, fmt.Sprintf(format, args...)}
}

func (e *apiError) write(w http.ResponseWriter) {
	body, _ := json.Marshal(e) // two strings
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // the client may have gone
}

// A dialError is a failure to reach a backend, before any byte of the request was sent.
type dialError struct{ cause error }

func (e *dialError) Error() string { return "connect: " + e.cause.Error() }
func (e *dialError) Unwrap() error { return e.cause }

// backendError says to the client what happened between us and the backend. What the backend's host
// looks like from here is nobody's business, so causes stay in the log.
func backendError(err error) *apiError {
	var failedDial *dialError
	switch {
	case isTimeout(err):
		return &apiError{http.StatusGatewayTimeout, codeTimeout, "the sandbox did not answer in time"}
	case errors.As(err, &failedDial):
		return &apiError{http.StatusBadGateway, codeConnectionFailed, "nothing answers at that port of the sandbox"}
	}
	return &apiError{http.StatusBadGateway, codeResponseFailed, "the sandbox broke off or answered something that is not HTTP"}
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}
