// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	testID     = "0b9d2c1e-7f4a-4c55-9d3e-1a2b3c4d5e6f"
	testToken  = "execd-token"
	testKey    = "the-api-key"
	testSecure = "secure-token"
)

func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// world is an ingress on a loopback port with an API behind it, told what to do over a real channel.
type world struct {
	t       *testing.T
	server  *Server
	address string // host:port of ingress
	dir     string
	client  *http.Client
	logs    *lockedBuffer

	control net.Conn
	replies chan reply
	ended   chan error // of ServeControl
	seq     int64
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type tb = testing.TB

func newWorld(t *testing.T, api http.HandlerFunc) *world {
	return newImpatientWorld(t, api, SilenceLimit)
}

// newImpatientWorld is one whose backends must not be silent for longer than limit.
func newImpatientWorld(t *testing.T, api http.HandlerFunc, limit time.Duration) *world {
	t.Helper()
	w := &world{t: t, dir: shortDir(t), logs: new(lockedBuffer), replies: make(chan reply, 1024), ended: make(chan error, 1)}
	if api == nil {
		api = func(rw http.ResponseWriter, r *http.Request) { io.WriteString(rw, "api "+r.URL.Path) }
	}
	apiSocket := filepath.Join(w.dir, "api.sock")
	serveUnix(t, apiSocket, api)
	log := slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if w.server, err = newServer("unix://"+apiSocket, log, limit); err != nil {
		t.Fatal(err)
	}
	ours, theirs := socketPair(t)
	w.control = ours
	var running sync.WaitGroup
	running.Go(func() { w.ended <- w.server.ServeControl(theirs); theirs.Close() })
	running.Go(func() { w.readReplies() })

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	httpServer := w.server.NewHTTPServer()
	running.Go(func() { _ = httpServer.Serve(w.server.Listener(listener)) })
	transport := &http.Transport{DisableCompression: true}
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		httpServer.Close()
		w.server.Close()
		ours.Close()
		running.Wait()
	})
	return w
}

// shortDir is a temporary directory whose paths fit into the address of a unix socket.
func shortDir(t tb) string {
	dir, err := os.MkdirTemp("", "ingress")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func serveUnix(t tb, path string, handler http.Handler) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, handler)
}

func serve(t tb, listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
}

func socketPair(t tb) (a, b net.Conn) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]net.Conn, 2)
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(file); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	return ends[0], ends[1]
}

func (w *world) readReplies() {
	defer close(w.replies)
	lines := bufio.NewScanner(w.control)
	for lines.Scan() {
		var r reply
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			return
		}
		w.replies <- r
	}
}

// tell sends one message and returns what the acknowledgement says is wrong with it.
func (w *world) tell(op string, fields map[string]any) string {
	w.t.Helper()
	w.seq++
	m := map[string]any{"seq": w.seq, "op": op}
	for name, value := range fields {
		m[name] = value
	}
	line, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.control.Write(append(line, '\n')); err != nil {
		w.t.Fatal(err)
	}
	for r := range w.replies {
		if r.Ack == nil {
			continue
		}
		if *r.Ack != w.seq {
			w.t.Fatalf("acknowledged %d, want %d", *r.Ack, w.seq)
		}
		return r.Error
	}
	w.t.Fatal("the channel ended without an acknowledgement")
	return ""
}

func (w *world) mustTell(op string, fields map[string]any) {
	w.t.Helper()
	if said := w.tell(op, fields); said != "" {
		w.t.Fatalf("%s: %s", op, said)
	}
}

// configure sends the usual configuration with changes.
func (w *world) configure(changes map[string]any) {
	w.t.Helper()
	fields := map[string]any{"apiKeyHashes": []string{hashOf(testKey)}, "domain": "localhost"}
	for name, value := range changes {
		fields[name] = value
	}
	w.mustTell("config", fields)
}

// put makes testID lead to an execd.
func (w *world) put(e *execdStandIn, changes map[string]any) {
	w.t.Helper()
	w.mustTell("put", map[string]any{"route": routeTo(e, changes)})
}

func routeTo(e *execdStandIn, changes map[string]any) map[string]any {
	route := map[string]any{"id": testID, "socket": e.socket, "tcp": "", "state": "running", "execdToken": testToken, "secureToken": "", "egress": ""}
	for name, value := range changes {
		route[name] = value
	}
	return route
}

// execdStandIn speaks what ingress needs of execd: a token, CONNECT, and answers of its own.
type execdStandIn struct {
	socket   string
	answer   http.HandlerFunc // for port 44772
	connects sync.Map         // places that were asked for
}

func newExecd(t tb, answer http.HandlerFunc) *execdStandIn {
	e := &execdStandIn{socket: filepath.Join(shortDir(t), "execd.sock"), answer: answer}
	if e.answer == nil {
		e.answer = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "execd "+r.URL.Path) }
	}
	serveUnix(t, e.socket, e)
	return e
}

func (e *execdStandIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(tokenHeader) != testToken {
		http.Error(w, `{"error":"token"}`, http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodConnect {
		e.answer(w, r)
		return
	}
	if !strings.HasPrefix(r.URL.Host, "127.0.0.1:") {
		http.Error(w, "not loopback", http.StatusBadRequest)
		return
	}
	e.connects.Store(r.URL.Host, true)
	app, err := net.Dial("tcp", r.URL.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer app.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	io.WriteString(client, "HTTP/1.1 200 Connection Established\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(app, client)
		app.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(client, app)
	client.Close()
	<-done
}

// newApp is an application that listens on a port in the sandbox.
func newApp(t tb, handler http.HandlerFunc) (port int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, handler)
	return listener.Addr().(*net.TCPAddr).Port
}

// rawApp answers each connection with what speak does.
func rawApp(t tb, speak func(net.Conn)) (port int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				speak(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	return listener.Addr().(*net.TCPAddr).Port
}

func proxyPath(port int, rest string) string {
	return "/v1/sandboxes/" + testID + "/proxy/" + strconv.Itoa(port) + rest
}

type answer struct {
	*http.Response
	body string
}

func (a answer) code() string {
	var e apiError
	_ = json.Unmarshal([]byte(a.body), &e)
	return e.Code
}

// do sends a request to ingress; headers are name, value, ….
func (w *world) do(method, path string, headers ...string) answer {
	w.t.Helper()
	return w.doBody(method, path, nil, headers...)
}

func (w *world) doBody(method, path string, body io.Reader, headers ...string) answer {
	w.t.Helper()
	r, err := http.NewRequest(method, "http://"+w.address+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{response, string(text)}
}

// raw sends bytes on a connection of its own and returns everything that comes back until it ends.
func (w *world) raw(text string) string {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	back, _ := io.ReadAll(conn)
	return string(back)
}

// standard is a world with one running sandbox.
func standard(t *testing.T, answer http.HandlerFunc) (*world, *execdStandIn) {
	w, e := newWorld(t, nil), newExecd(t, answer)
	w.configure(nil)
	w.put(e, nil)
	return w, e
}

func (a answer) want(t *testing.T, status int, code string) {
	t.Helper()
	if a.StatusCode != status || code != "" && a.code() != code {
		t.Fatalf("got %d %s, want %d %s", a.StatusCode, a.body, status, code)
	}
}
