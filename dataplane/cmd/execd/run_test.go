// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("os/signal.loop")) }

// daemon is a running execd and a client for it.
type daemon struct {
	*http.Client
	t        *testing.T
	socket   string
	stateDir string
	signals  chan os.Signal
	status   chan int
}

func start(t *testing.T, args ...string) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{t: t, socket: filepath.Join(dir, "s"), stateDir: filepath.Join(dir, "state"), signals: make(chan os.Signal, 1), status: make(chan int, 1)}
	args = append([]string{"--listen", "unix://" + d.socket, "--state-dir", d.stateDir, "--log-level", "3"}, args...)
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "EXECD_ENVS=" + filepath.Join(dir, "env")}
	config, err := parseFlags(args, environ, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	childExited := make(chan os.Signal, 1)
	signal.Notify(childExited, syscall.SIGCHLD)
	go func() {
		defer close(childExited)
		defer signal.Stop(childExited)
		status, err := run(context.Background(), config, childExited, d.signals)
		if err != nil {
			t.Error(err)
		}
		d.status <- status
	}()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.socket)
	}}
	d.Client = &http.Client{Transport: transport}
	d.waitUntilReady()
	t.Cleanup(transport.CloseIdleConnections)
	return d
}

func (d *daemon) waitUntilReady() {
	for range 1000 {
		if conn, err := net.Dial("unix", d.socket); err == nil {
			conn.Close()
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.t.Fatal("the daemon does not listen")
}

func (d *daemon) stop() int {
	d.signals <- syscall.SIGTERM
	return <-d.status
}

type event struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Error struct {
		Value string `json:"evalue"`
	} `json:"error"`
}

func (d *daemon) post(path, body string) *http.Response {
	d.t.Helper()
	response, err := d.Post("http://execd"+path, "application/json", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	return response
}

// events reads a stream to its end.
func (d *daemon) events(path, body string) []event {
	d.t.Helper()
	response := d.post(path, body)
	defer response.Body.Close()
	return readEvents(d.t, response.Body)
}

func readEvents(t *testing.T, stream io.Reader) []event {
	t.Helper()
	var all []event
	decoder := json.NewDecoder(stream)
	for {
		var e event
		if err := decoder.Decode(&e); err == io.EOF {
			return all
		} else if err != nil {
			t.Error(err)
			return all
		}
		if e.Type != "ping" {
			all = append(all, e)
		}
	}
}

func TestFiveHundredStreamsAtOnceAllEndWell(t *testing.T) {
	d := start(t)
	var running sync.WaitGroup
	for i := range 500 {
		running.Go(func() {
			got := d.events("/command", fmt.Sprintf(`{"command":"echo %d; read x < /dev/null; echo end"}`, i))
			if len(got) != 4 || got[1].Text != fmt.Sprint(i) || got[2].Text != "end" || got[3].Type != "execution_complete" {
				t.Errorf("stream %d: %+v", i, got)
			}
		})
	}
	running.Wait()
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if left, _ := os.ReadDir(d.stateDir); len(left) > 0 {
		t.Errorf("%d files are left behind", len(left))
	}
}

func TestASlowReaderGetsEveryLineAndOthersAreAnsweredMeanwhile(t *testing.T) {
	d := start(t, "--journal-limit", "200000")
	response := d.post("/command", `{"command":"seq 1 100000"}`)
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	if _, err := reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 20 { // while the first stream is stuck
		if got := d.events("/command", `{"command":"true"}`); got[len(got)-1].Type != "execution_complete" {
			t.Fatalf("got %+v", got)
		}
	}
	got := readEvents(t, reader)
	if len(got) != 100001 || got[99999].Text != "100000" || got[100000].Type != "execution_complete" {
		t.Errorf("%d events, last %+v", len(got), got[len(got)-1])
	}
	d.stop()
}

func TestAClientThatVanishesDoesNotStopItsCommand(t *testing.T) {
	d := start(t)
	response := d.post("/command", `{"command":"echo begin; while [ ! -e \"$HOME/go\" ]; do sleep 0.01; done; echo end"}`)
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var first event
	if err := json.Unmarshal([]byte(line), &first); err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := d.events("/command", `{"command":"touch \"$HOME/go\""}`); got[len(got)-1].Type != "execution_complete" {
		t.Fatalf("got %+v", got)
	}
	replay, err := d.Get("http://execd/command/" + first.Text + "/output")
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Body.Close()
	text := ""
	got := readEvents(t, replay.Body)
	for _, e := range got[1 : len(got)-1] {
		text += e.Text
	}
	if text != "begin\nend\n" || got[len(got)-1].Type != "execution_complete" {
		t.Errorf("got %+v", got)
	}
	d.stop()
}

func TestShutdownEndsWhatRuns(t *testing.T) {
	d := start(t, "--graceful-shutdown-timeout", "10ms")
	response := d.post("/command", `{"command":"echo started; sleep 1000"}`)
	defer response.Body.Close()
	if _, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if status := d.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

func TestTheEntrypointsStatusIsTheDaemons(t *testing.T) {
	d := start(t, "--", "sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.01; done")
	got := d.events("/command", `{"command":"exit 3"}`)
	if got[len(got)-1].Error.Value != "3" {
		t.Errorf("got %+v", got)
	}
	if status := d.stop(); status != 5 {
		t.Errorf("exit status %d", status)
	}
}

func TestBadFlagsAreRefusedWithAReason(t *testing.T) {
	for _, bad := range []struct{ args, environ, says string }{
		{"--access-token x", "", "-access-token-file"},
		{"", "EXECD_ACCESS_TOKEN=x", "-access-token-file"},
		{"--journal-limit 0", "", "-journal-limit"},
		{"--access-token-file a --access-token-fd 3", "", "one of"},
		{"", "EXECD_API_GRACE_SHUTDOWN=soon", "not a duration"},
		{"--nonsense", "", "nonsense"},
	} {
		_, err := parseFlags(strings.Fields(bad.args), []string{bad.environ}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%q %q: %v", bad.args, bad.environ, err)
		}
	}
}
