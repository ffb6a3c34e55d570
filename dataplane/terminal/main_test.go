// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"opensandbox.io/dataplane/process"
)

func TestMain(m *testing.M) {
	// A signal that was ignored when we started (nohup) would be ignored by every shell here too.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	goleak.VerifyTestMain(m)
}

// testTimeout is how long a test waits for something that must happen before it calls it missing.
const testTimeout = 30 * time.Second

func newTerminals(t *testing.T, env ...string) *Terminals {
	t.Helper()
	table := process.NewTable(false)
	exits := make(chan os.Signal, 1)
	signal.Notify(exits, syscall.SIGCHLD)
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		table.Reap(exits)
	}()
	terminals := New(table, process.NewEnviron(append(os.Environ(), env...), filepath.Join(t.TempDir(), "envs")))
	t.Cleanup(func() {
		terminals.Close()
		signal.Stop(exits)
		close(exits)
		<-reaped
	})
	return terminals
}

func create(t *testing.T, terminals *Terminals, spec Spec) *Terminal {
	t.Helper()
	terminal, err := terminals.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	return terminal
}

func attach(t *testing.T, terminal *Terminal, mode Mode, since int64) *Client {
	t.Helper()
	client, err := terminal.Attach(since, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Detach)
	if _, err := client.Launch(mode); err != nil {
		t.Fatal(err)
	}
	return client
}

func start(t *testing.T, terminals *Terminals, mode Mode, command string) (*Terminal, *Client) {
	t.Helper()
	terminal := create(t, terminals, Spec{Command: command})
	return terminal, attach(t, terminal, mode, 0)
}

func write(t *testing.T, client *Client, input string) {
	t.Helper()
	if err := client.Write([]byte(input)); err != nil {
		t.Fatal(err)
	}
}

// awaitBacklog returns when the shell waits for a client that does not read: all that can wait for the
// client does, and there is one chunk more.
func awaitBacklog(client *Client) {
	for {
		isFull := len(client.output) == cap(client.output)
		isDelivering := !client.terminal.output.TryLock()
		if isFull && isDelivering {
			return
		}
		if !isDelivering {
			client.terminal.output.Unlock()
		}
		runtime.Gosched()
	}
}

// readUntil collects output until it contains text.
func readUntil(t *testing.T, client *Client, text string) string {
	t.Helper()
	var seen bytes.Buffer
	deadline := time.After(testTimeout)
	for !strings.Contains(seen.String(), text) {
		select {
		case chunk, isOpen := <-client.Output():
			if !isOpen {
				t.Fatalf("ended before %q; got %q", text, seen.String())
			}
			seen.Write(chunk.Data)
		case <-deadline:
			t.Fatalf("no %q; got %q", text, seen.String())
		}
	}
	return seen.String()
}

// readAll collects both streams until the shell has ended.
func readAll(t *testing.T, client *Client) (stdout, stderr string) {
	t.Helper()
	streams := map[Stream]*bytes.Buffer{Stdout: {}, Stderr: {}}
	deadline := time.After(testTimeout)
	for {
		select {
		case chunk, isOpen := <-client.Output():
			if !isOpen {
				return streams[Stdout].String(), streams[Stderr].String()
			}
			streams[chunk.Stream].Write(chunk.Data)
		case <-deadline:
			t.Fatalf("no end; got %q", streams[Stdout].String())
		}
	}
}
