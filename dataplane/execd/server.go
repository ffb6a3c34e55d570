// SPDX-License-Identifier: Apache-2.0

// Package execd is the HTTP face of the sandbox daemon. What it serves lives in packages that know
// no HTTP: command, session, kernel, terminal, files, metrics.
package execd

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/kernel"
	"opensandbox.io/dataplane/metrics"
	"opensandbox.io/dataplane/process"
	"opensandbox.io/dataplane/session"
	"opensandbox.io/dataplane/terminal"
)

// TokenHeader carries the access token on every request.
const TokenHeader = "X-EXECD-ACCESS-TOKEN"

// TokenHash is the SHA-256 of an access token: all that is needed to know the token when it comes.
type TokenHash [sha256.Size]byte

// HashToken returns the hash of a token.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// Server answers the execd contract. Its fields are set once, before the first request.
type Server struct {
	Token     *TokenHash // nil: every request passes
	SandboxID string
	Environ   *process.Environ
	Commands  *command.Commands
	Sessions  *session.Sessions
	Contexts  *kernel.Contexts
	Terminals *terminal.Terminals
	Metrics   *metrics.Meter
	Log       *slog.Logger
	// FollowerTimeout is how long somebody who asks for output again may read nothing; 0 is a minute. A
	// reader holds back the program it reads from, and this one can come back with its cursor.
	FollowerTimeout time.Duration

	connections connections
	ports       portProxy
	interpreter interpreterListener
}

func (s *Server) followerTimeout() time.Duration { return cmp.Or(s.FollowerTimeout, time.Minute) }

// Handler returns the whole daemon as one http.Handler.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, h handler) { mux.Handle(pattern, h) }

	route("GET /ping", s.ping)
	route("GET /ready", s.ready)
	route("POST /internal/init", s.initialize)
	s.commandRoutes(route)
	// The router refuses /command/status/{id} beside /command/{id}/logs: both match /command/status/logs.
	status := http.NewServeMux()
	status.Handle("GET /command/status/{id}", handler(s.commandStatus))
	s.sessionRoutes(route)
	s.codeRoutes(route)
	s.terminalRoutes(route)
	s.fileRoutes("", route)
	s.fileRoutes("/v1/filesystem/{uid}/{gid}", route)
	s.portRoutes(route)
	s.metricRoutes(route)
	s.isolatedRoutes(route)

	return s.authorized(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			handler(s.connect).ServeHTTP(w, r)
		case r.URL.Path == "/proxy" || strings.HasPrefix(r.URL.Path, "/proxy/"):
			handler(s.proxy).ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/command/status/"):
			serveRoute(status, w, r)
		default:
			serveRoute(mux, w, r)
		}
	}))
}

// serveRoute is mux.ServeHTTP, but an unknown path or method gets the contract's error body, and an
// unclean path is unknown rather than redirected.
func serveRoute(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	if _, pattern := mux.Handler(r); pattern != "" && path.Clean(r.URL.Path) == r.URL.Path {
		mux.ServeHTTP(w, r)
		return
	}
	allowed := allowedMethods(mux, r)
	if len(allowed) == 0 || slices.Contains(allowed, r.Method) {
		writeJSON(w, http.StatusNotFound, &apiError{Code: CodeUnknown, Message: "no such route: " + r.Method + " " + r.URL.Path})
		return
	}
	allow := strings.Join(allowed, ", ")
	w.Header().Set("Allow", allow)
	writeJSON(w, http.StatusMethodNotAllowed, &apiError{Code: CodeNotSupported, Message: r.Method + " is not supported here; allowed: " + allow})
}

func allowedMethods(mux *http.ServeMux, r *http.Request) []string {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := mux.Handler(probe); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// authorized asks every request for the token. Both sides are hashed, so that the comparison takes
// the same time whatever the length of the guess.
func (s *Server) authorized(next http.Handler) http.Handler {
	if s.Token == nil {
		return next
	}
	want := *s.Token
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := HashToken(r.Header.Get(TokenHeader))
		if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "missing or wrong " + TokenHeader})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) ping(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusOK)
	return nil
}

// Close ends every context, command, session, terminal and tunnel, and waits for them.
func (s *Server) Close() {
	s.Contexts.Close()
	s.Sessions.Close()
	s.Terminals.Close()
	s.Commands.Close()
	s.connections.closeAll()
	s.ports.close()
	s.interpreter.close()
}
