// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// idleTimeout is how long a connection to an application is kept for the next request.
const idleTimeout = 15 * time.Second

// smallBody is what is read before a request is forwarded.
const smallBody = 64 << 10

// portProxy forwards requests to what listens in the sandbox. The zero value is ready to use.
type portProxy struct {
	once      sync.Once
	transport *http.Transport
	reverse   *httputil.ReverseProxy
}

// proxy answers /proxy/{port}[/path] with what the application at the port answers, unchanged and as it
// comes. /proxy/{port} of this daemon itself is allowed: each round takes one /proxy/{port} off the
// path, so it ends, and the token is not passed on, so it opens nothing.
func (s *Server) proxy(w http.ResponseWriter, r *http.Request) error {
	port, path, err := proxyTarget(r.URL)
	if err != nil {
		return err
	}
	ctx, end := s.connections.begin(r.Context())
	defer end()
	out := r.WithContext(ctx)
	out.URL = &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))}
	out.URL.RawPath = path
	out.URL.Path, _ = url.PathUnescape(path) // it was unescaped before, as a part of the whole
	out.URL.RawQuery, out.URL.ForceQuery = r.URL.RawQuery, r.URL.ForceQuery
	if err := freeBody(w, out); err != nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, "read the body: %v", err)
	}
	s.ports.init(s.Log)
	s.ports.reverse.ServeHTTP(w, out)
	return nil
}

// freeBody lets the application answer while it still reads. Without it, http.Server throws away what
// was not read when the answer begins. A small body is simply read. A connection that had a larger one
// is closed afterwards: http.Server cannot use it again when some of that body is left.
func freeBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		w.Header().Set("Connection", "close")
		return http.NewResponseController(w).EnableFullDuplex()
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err
}

// proxyTarget splits the escaped path, so that what the application gets is escaped as the client did.
func proxyTarget(address *url.URL) (port uint16, path string, err error) {
	parts := strings.SplitN(address.EscapedPath(), "/", 4) // "", "proxy", port, rest
	if len(parts) < 3 || parts[2] == "" {
		return 0, "", failf(http.StatusBadRequest, CodeMissingQuery, "name a port: /proxy/{port}/path")
	}
	port, ok := parsePort(parts[2])
	if !ok {
		return 0, "", failf(http.StatusBadRequest, CodeInvalidBody, "%q is not a port: 1..65535", parts[2])
	}
	if len(parts) == 3 {
		return port, "/", nil
	}
	return port, "/" + parts[3], nil
}

func (p *portProxy) init(logger *slog.Logger) {
	p.once.Do(func() {
		p.transport = &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				_, port, _ := net.SplitHostPort(address)
				number, _ := parsePort(port)
				return dialLoopback(ctx, "127.0.0.1", number)
			},
			DisableCompression:  true, // bytes pass as they are
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     idleTimeout,
		}
		p.reverse = &httputil.ReverseProxy{
			Transport:     p.transport,
			Rewrite:       rewrite,
			FlushInterval: -1,
			ErrorHandler:  proxyError,
			ErrorLog:      log.New(io.Discard, "", 0),
		}
		if logger != nil {
			p.reverse.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
		}
	})
}

func (p *portProxy) close() {
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
}

// rewrite leaves the request as the client sent it but for the headers that are between us and others.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery // ReverseProxy drops what it cannot parse, like a=1;b=2
	r.Out.Header.Del(TokenHeader)
	r.Out.Header.Set("X-Forwarded-For", forwardedFor(r.In))
	setForwarded(r, "X-Forwarded-Proto", "http")
	setForwarded(r, "X-Forwarded-Host", r.In.Host)
}

// setForwarded keeps what a proxy before us said, since only it saw the client.
func setForwarded(r *httputil.ProxyRequest, header, value string) {
	if before := r.In.Header.Get(header); before != "" {
		value = before
	}
	r.Out.Header.Set(header, value)
}

// forwardedFor appends the client to the chain. A client on a unix socket has no address; it is local.
func forwardedFor(r *http.Request) string {
	chain := r.Header.Values("X-Forwarded-For")
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err == nil {
		chain = append(chain[:len(chain):len(chain)], client)
	} else if len(chain) == 0 {
		chain = []string{"127.0.0.1"}
	}
	return strings.Join(chain, ", ")
}

func proxyError(w http.ResponseWriter, r *http.Request, err error) {
	http.Error(w, "nothing answers at port "+r.URL.Port()+": "+err.Error(), http.StatusBadGateway)
}
