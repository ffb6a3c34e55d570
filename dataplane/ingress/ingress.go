// SPDX-License-Identifier: Apache-2.0

// Package ingress is the front door: the one public port of a server and of every sandbox on it. It
// carries bytes and checks tokens; who owns what is decided by the server, which pushes its decisions
// over a control channel (control.go) and is never asked about a single request.
//
// # Routes
//
// A request reaches a port of a sandbox by one of four forms; everything else goes to the API.
//
//	/sandboxes/{id}/proxy/{port}[/path]    with or without /v1 before it
//	/{id}/{port}[/path]
//	{id}-{port}.{domain}                   as the host
//	OpenSandbox-Ingress-To: {id}-{port}    as a header; OPEN-SANDBOX-INGRESS is its older name
//
// Port 44772 is execd itself. For any other port ingress opens CONNECT 127.0.0.1:port on execd and
// speaks HTTP to the application through it, so that no byte of a request becomes part of an execd URL.
//
// # Signed routes
//
// All forms but the first may carry an expiry and a signature, which stand for every token:
//
//	/{id}/{port}/{expires}/{signature}[/path]
//	OpenSandbox-Ingress-To: {id}-{port}-{expires}-{signature}
//	{signature}.{id}-{port}-{expires}.{domain}
//	{id}-{port}-{expires}-{signature}.{domain}    only a short signature fits into one label
//
// expires is the Unix second in lower-case base 36. Signed are five lines, each ended by \n: v1, the
// name of the form, id, port, expires. Two forms exist:
//
//   - full: HMAC-SHA256 of the lines under the key, all 32 bytes in lower-case base 32 without padding
//     (52 characters, for host names have no case), then the one-character id of the key [0-9a-z].
//   - short, the published one: the first 8 hex digits of SHA-256 over be32(len key) ‖ key ‖
//     be32(len lines) ‖ lines, then the id of the key. 32 bits can be guessed, so it is accepted only
//     when the configuration says so.
package ingress

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Server answers on the public port. Make it with New.
type Server struct {
	log      *slog.Logger
	api      *http.Transport
	table    table
	settings atomic.Pointer[Settings]
	progress progress
	sockets  sockets
	streams  streams
	limit    time.Duration // of silence, of the body of a request too

	connections connections
}

// New makes a server that knows no sandbox yet. api is where the API listens: unix:///path or
// tcp://host:port.
func New(api string, log *slog.Logger) (*Server, error) {
	return newServer(api, log, SilenceLimit)
}

// newServer lets tests wait less long for silence to end.
func newServer(api string, log *slog.Logger, limit time.Duration) (*Server, error) {
	place, err := parseAddress(api)
	if err != nil {
		return nil, err
	}
	s := &Server{log: log, limit: limit, table: table{limit: limit}, progress: progress{done: make(chan struct{})}}
	s.settings.Store(new(Settings))
	s.api = newTransport(execdIdle, func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := place.dial(ctx)
		if err != nil {
			return nil, &dialError{err}
		}
		return newBackendConn(conn, nil, limit), nil
	})
	return s, nil
}

// Configured is closed once both settings and routes have come. An answer before that would say of
// every sandbox that it does not exist.
func (s *Server) Configured() <-chan struct{} { return s.progress.done }

// NewHTTPServer wraps the server with the limits of the public port.
func (s *Server) NewHTTPServer() *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       SilenceLimit,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// ServeHTTP finds the destination and carries the request there.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{server: s, w: w, r: r, settings: s.settings.Load(), requestID: requestIDOf(r.Header)}
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		x.began = time.Now()
		defer x.logAccess()
	}
	w.Header()[requestIDHeader] = []string{x.requestID}
	x.watchBody()
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		x.fail(&apiError{http.StatusMethodNotAllowed, codeMethodNotAllowed, r.Method + " is not supported"})
		return
	}
	var err *apiError
	if x.destination, err = findDestination(r, x.settings.domain); err != nil {
		x.fail(err)
		return
	}
	switch {
	case x.form != toAPI:
		x.serveSandbox()
	case r.URL.Path == "/status.ok" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		x.status = http.StatusOK
		_, _ = w.Write([]byte("OK\n"))
	default:
		x.forward(s.api)
	}
}

// serveSandbox answers for a port of a sandbox.
func (x *exchange) serveSandbox() {
	isSocket := isWebSocket(x.r)
	if x.form == byPath && !isSocket && !x.allowMethod() {
		return
	}
	err := x.admit()
	switch {
	case isSocket:
		x.serveWebSocket(err)
	case err != nil:
		x.fail(err)
	default:
		defer x.server.streams.requests.begin()()
		x.touch()
		x.forward(x.sandbox.link.transport(x.port))
	}
}

// admit finds the sandbox and says whether the request may reach it now.
func (x *exchange) admit() *apiError {
	x.sandbox = x.server.table.find(x.id)
	if x.sandbox == nil {
		return &apiError{http.StatusNotFound, codeNotFound, "there is no sandbox " + x.id}
	}
	if err := x.authorize(); err != nil {
		return err
	}
	switch {
	case x.sandbox.isPaused:
		return &apiError{http.StatusConflict, codeNotRunning, "the sandbox is paused; resume it first"}
	case x.port == egressPort && !x.sandbox.hasEgress:
		return &apiError{http.StatusServiceUnavailable, codeEgressUnavailable, "this sandbox has no egress proxy"}
	}
	return nil
}

// proxyMethods are those of the server proxy.
const proxyMethods = "GET, POST, PUT, PATCH, DELETE"

// allowMethod answers what the server proxy does not pass on.
func (x *exchange) allowMethod() bool {
	switch x.r.Method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	case http.MethodOptions:
		if x.r.Header.Get("Origin") != "" && x.r.Header.Get("Access-Control-Request-Method") != "" {
			x.preflight()
			return false
		}
	}
	x.w.Header().Set("Allow", proxyMethods)
	x.fail(&apiError{http.StatusMethodNotAllowed, codeMethodNotAllowed, x.r.Method + " is not supported; allowed: " + proxyMethods})
	return false
}

// preflight allows every origin, method and header, and never credentials.
func (x *exchange) preflight() {
	h := x.w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", proxyMethods)
	if wanted := x.r.Header.Get("Access-Control-Request-Headers"); wanted != "" {
		h.Set("Access-Control-Allow-Headers", wanted)
	}
	h.Set("Access-Control-Max-Age", "600")
	h.Set("Vary", "Access-Control-Request-Headers")
	x.status = http.StatusNoContent
	x.w.WriteHeader(http.StatusNoContent)
}

// CloseWebSockets tells both ends of every WebSocket that we are going away, and waits for them. None
// begins after it.
func (s *Server) CloseWebSockets() { s.sockets.closeAll() }

// Close ends WebSockets, forgets every route and lets go of the connections that wait. Requests are the
// business of the http.Server, which must have ended before.
func (s *Server) Close() {
	s.CloseWebSockets()
	_ = s.table.replace(nil) // nothing in it can be wrong
	s.api.CloseIdleConnections()
}
