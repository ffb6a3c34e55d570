// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/metrics"
	"opensandbox.io/dataplane/process"
	"opensandbox.io/dataplane/terminal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout is how long a test waits for something that must happen before it calls it missing.
const testTimeout = 30 * time.Second

// daemon is a Server on a TCP port and on a unix socket, without sessions and with small journals.
type daemon struct {
	*Server
	t      *testing.T
	addr   string
	socket string
	client *http.Client
}

// hashOf returns what a daemon knows of a token; of none it knows nothing and lets everybody in.
func hashOf(token string) *TokenHash {
	if token == "" {
		return nil
	}
	hash := HashToken(token)
	return &hash
}

func startDaemon(t *testing.T, token string) *daemon {
	t.Helper()
	table := process.NewTable(false)
	exits := make(chan os.Signal, 1)
	signal.Notify(exits, syscall.SIGCHLD)
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		table.Reap(exits)
	}()
	dir := t.TempDir()
	environ := process.NewEnviron(os.Environ(), filepath.Join(dir, "envs"))
	d := &daemon{
		t: t, socket: filepath.Join(dir, "execd.sock"),
		Server: &Server{
			Token: hashOf(token), SandboxID: "sandbox-1", Environ: environ,
			Terminals: terminal.New(table, environ), Metrics: metrics.NewMeter("/"),
			Commands: command.New(table, dir, 1, journal.NewKeeper(journal.KeptBytes), slog.New(slog.DiscardHandler)),
		},
	}
	onTCP := listen(t, "tcp", "127.0.0.1:0")
	d.addr = onTCP.Addr().String()
	onUnix := listen(t, "unix", d.socket)
	server := &http.Server{Handler: d.Handler()}
	d.client = &http.Client{Transport: &http.Transport{}}
	go func() { _ = server.Serve(onTCP) }()
	go func() { _ = server.Serve(onUnix) }()
	t.Cleanup(func() {
		d.client.CloseIdleConnections()
		d.Terminals.Close()
		d.Commands.Close()
		d.connections.closeAll()
		d.ports.close()
		_ = server.Close()
		signal.Stop(exits)
		close(exits)
		<-reaped
	})
	return d
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// call makes one request and returns its status and body; headers are name, value, name, value, ….
func (d *daemon) call(method, path, body string, headers ...string) (*http.Response, string) {
	d.t.Helper()
	request, err := http.NewRequest(method, "http://"+d.addr+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := d.client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return response, string(text)
}

// wantError checks that an answer is the contract's error with this status and code.
func wantError(t *testing.T, what string, response *http.Response, body string, status int, code string) {
	t.Helper()
	var parsed map[string]string
	err := json.Unmarshal([]byte(body), &parsed)
	if err != nil || response.StatusCode != status || parsed["code"] != code || parsed["message"] == "" || len(parsed) != 2 {
		t.Errorf("%s: got %d %s, want %d %s", what, response.StatusCode, body, status, code)
	}
}
