// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// errNotAsked is a final answer below 200: a switch of protocols that nobody asked for, or nonsense.
var errNotAsked = errors.New("the status is not that of an answer")

// maxRequestID bounds the ids that clients choose.
const maxRequestID = 128

// exchange is one request and what becomes of it.
type exchange struct {
	destination
	server    *Server
	w         http.ResponseWriter
	r         *http.Request
	settings  *Settings
	body      *requestBody // nil when there is none
	sandbox   *sandbox     // nil until found, and for the API
	requestID string
	began     time.Time
	status    int
	sent      int64
}

// requestIDOf is the client's own id, or a new one.
func requestIDOf(h http.Header) string {
	if values := h[requestIDHeader]; len(values) > 0 {
		if id := textproto.TrimString(values[0]); id != "" && len(id) <= maxRequestID && isHeaderValue(id) {
			return id
		}
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// fail answers with an error of our own.
func (x *exchange) fail(err *apiError) {
	x.status = err.Status
	if x.form != toAPI {
		x.separateOrigin(x.w.Header())
	}
	err.write(x.w)
}

// touch counts the exchange as activity, unless the client asked that it does not.
func (x *exchange) touch() {
	if x.sandbox != nil && !x.isUncounted() {
		x.sandbox.link.touch()
	}
}

func (x *exchange) isUncounted() bool {
	values := x.r.Header[renewHeader]
	return len(values) > 0 && values[0] == "skip"
}

// outgoing is the request to the backend. Its host is the application's own, except where the sandbox
// has a name: there pages and the checks of applications count on it.
func (x *exchange) outgoing() *http.Request {
	out := x.r.WithContext(x.r.Context())
	out.URL = &url.URL{Scheme: "http", Host: x.backendHost(), RawQuery: x.r.URL.RawQuery, ForceQuery: x.r.URL.ForceQuery}
	if x.form == toAPI {
		out.URL.Path, out.URL.RawPath = x.r.URL.Path, x.r.URL.RawPath
	} else {
		out.URL.Path, _ = url.PathUnescape(x.path) // checkPath has done it before
		out.URL.RawPath = x.path
		if x.form != byHost {
			out.Host = out.URL.Host
		}
	}
	out.Header = x.requestHeader()
	out.RequestURI, out.TransferEncoding, out.Trailer, out.Close = "", nil, nil, false
	if x.r.ContentLength == 0 {
		out.Body = nil
	}
	return out
}

// backendHost is the key of the connection pool as well as the name an application is called by.
func (x *exchange) backendHost() string {
	if x.form == toAPI {
		return "api"
	}
	return "127.0.0.1:" + strconv.Itoa(int(x.port))
}

// maxAPIBody is the longest body of a request to the API, which reads it whole before it looks at it.
const maxAPIBody = 1 << 20

// upload is the body on its way to the backend. It remembers whether the client broke it.
type upload struct {
	io.ReadCloser
	exchange            *exchange
	isBroken, isTooLong atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if n > 0 {
		u.exchange.touch()
	}
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		u.isTooLong.Store(true)
	case err != nil && err != io.EOF:
		u.isBroken.Store(true)
	}
	return n, err
}

// smallBody is what is read before it is sent on: then the connection to the client can serve other
// requests whatever the backend does with it, and a request that met a dead connection is sent again.
const smallBody = 64 << 10

// takeBody reads the body of a request into memory.
func takeBody(r *http.Request) error {
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return err
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody() // it cannot fail
	return nil
}

// forward carries the request to the backend and the response to the client, as they come. A client
// that goes away takes the request to the backend with it.
func (x *exchange) forward(transport http.RoundTripper) {
	out := x.outgoing()
	var body *upload
	if x.form == toAPI && out.Body != nil {
		if out.ContentLength > maxAPIBody {
			x.fail(errBodyTooLong)
			return
		}
		out.Body = http.MaxBytesReader(x.w, out.Body, maxAPIBody) // a chunked one does not say its length
	}
	switch {
	case out.Body == nil:
	case out.ContentLength > 0 && out.ContentLength <= smallBody:
		if err := takeBody(out); err != nil {
			x.fail(&apiError{http.StatusBadRequest, codeBadBody, "the body of the request is broken"})
			return
		}
	default:
		body = &upload{ReadCloser: out.Body, exchange: x}
		out.Body = body
		// An answer may begin before the transport has seen the end of the body. Without this our server
		// would close the body under it, and the transport then the connection under the answer. What
		// is left of the body makes the connection useless for another request.
		_ = http.NewResponseController(x.w).EnableFullDuplex() // HTTP/2 needs no asking
		x.w.Header().Set("Connection", "close")
		// The transport may still read when it has the response, and must not after we return.
		defer body.Close()
	}
	response, err := transport.RoundTrip(out)
	if err != nil {
		x.failForward(err, body)
		return
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusOK {
		x.failForward(errNotAsked, nil)
		return
	}
	x.touch()
	x.respond(response)
}

// failForward answers instead of the backend.
func (x *exchange) failForward(err error, body *upload) {
	switch {
	case x.r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // nobody is there to be told
	case body != nil && body.isTooLong.Load():
		x.fail(errBodyTooLong)
	case body != nil && body.isBroken.Load():
		x.fail(&apiError{http.StatusBadRequest, codeBadBody, "the body of the request is broken"})
	case x.form == toAPI:
		x.server.log.LogAttrs(context.Background(), slog.LevelWarn, "the server does not answer", x.attrs(err)...)
		x.w.Header().Set("Retry-After", "1")
		x.fail(&apiError{http.StatusServiceUnavailable, codeServerUnavailable, "the server does not answer; try again"})
	default:
		x.server.log.LogAttrs(context.Background(), slog.LevelDebug, "the sandbox does not answer", x.attrs(err)...)
		x.fail(backendError(err))
	}
}

// respond gives the client what the backend answered.
func (x *exchange) respond(response *http.Response) {
	x.copyResponseHeader(response.Header)
	x.status = response.StatusCode
	x.w.WriteHeader(response.StatusCode)
	var flush func()
	if isStream(response) {
		if flusher, ok := x.w.(http.Flusher); ok {
			flush = flusher.Flush
			flush() // the head: the first byte may be long in coming
		}
	}
	if err := x.copyBody(response.Body, flush); err != nil {
		if !errors.Is(err, context.Canceled) {
			x.server.log.LogAttrs(context.Background(), slog.LevelDebug, "a response broke off", x.attrs(err)...)
		}
		panic(http.ErrAbortHandler) // the client must see that it is not whole
	}
}

// isStream says that bytes must not wait for others.
func isStream(r *http.Response) bool {
	return r.ContentLength < 0 || strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream")
}

func (x *exchange) copyBody(body io.Reader, flush func()) error {
	buffer := copyBuffers.Get().(*[64 << 10]byte)
	defer copyBuffers.Put(buffer)
	for {
		n, err := body.Read(buffer[:])
		if n > 0 {
			if _, err := x.w.Write(buffer[:n]); err != nil {
				return err
			}
			x.sent += int64(n)
			x.body.extend()
			x.touch()
			if flush != nil {
				flush()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// attrs are what every line about an exchange has.
func (x *exchange) attrs(err error) []slog.Attr {
	attrs := []slog.Attr{slog.String("request_id", x.requestID)}
	if x.id != "" {
		attrs = append(attrs, slog.String("sandbox_id", x.id), slog.Int("port", int(x.port)))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	return attrs
}

// logAccess writes one line for the request, without its query, which may hold secrets.
func (x *exchange) logAccess() {
	path := x.path // of a sandbox route: what comes before it may be a signature
	if x.form == toAPI {
		path = x.r.URL.Path
	}
	x.server.log.LogAttrs(context.Background(), slog.LevelDebug, "request", append(x.attrs(nil),
		slog.String("method", x.r.Method), slog.String("path", path), slog.Int("status", x.status),
		slog.Int64("bytes", x.sent), slog.Duration("took", time.Since(x.began)), slog.String("client", peerAddress(x.r)))...)
}
