// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestAFailedStartIsToldAndTriedAgain(t *testing.T) {
	terminals := newTerminals(t)
	dir := filepath.Join(t.TempDir(), "later-gone")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	terminal := create(t, terminals, Spec{Cwd: dir, Command: "pwd"})
	if status := terminal.Status(); status.LaunchAttempted || status.LaunchFailed || status.IsRunning {
		t.Errorf("before the first client: %+v", status)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	client, err := terminal.Attach(0, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Launch(PTY); err == nil {
		t.Fatal("started in a directory that is gone")
	}
	client.Detach()
	if status := terminal.Status(); !status.LaunchAttempted || !status.LaunchFailed || status.IsRunning {
		t.Errorf("after a failure: %+v", status)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if stdout, _ := readAll(t, attach(t, terminal, PTY, 0)); stdout != dir+"\r\n" {
		t.Errorf("got %q", stdout)
	}
}

func TestAWrongDirectoryOrCommandIsRefusedAtOnce(t *testing.T) {
	terminals := newTerminals(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []Spec{{Cwd: file}, {Cwd: file + "-missing"}, {Cwd: "$NO_SUCH_VARIABLE_HERE"}, {Cwd: "a\x00b"}, {Command: "a\x00b"}} {
		if _, err := terminals.Create(spec); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

func TestDeleteEndsTheShellItsJobsAndWhatIgnoresTheHangUp(t *testing.T) {
	terminals := newTerminals(t)
	terminal, client := start(t, terminals, PTY, "")
	write(t, client, "PS1=; stty -echo; echo qu''iet\n")
	readUntil(t, client, "quiet\r\n")
	write(t, client, "sleep 1001 & echo job=$!.\n")
	job := number(t, readUntil(t, client, ".\r\n"), "job=")
	write(t, client, "(trap '' HUP TERM; exec sleep 1002) & echo deaf=$!.\n")
	deaf := number(t, readUntil(t, client, ".\r\n"), "deaf=")
	if err := terminals.Delete(terminal.ID); err != nil {
		t.Fatal(err)
	}
	readAll(t, client)
	for name, pid := range map[string]int{"a job": job, "a job that ignores SIGHUP": deaf} {
		if isRunning(pid) {
			t.Errorf("%s still runs", name)
		}
	}
	if _, err := terminals.Get(terminal.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("still found: %v", err)
	}
	if err := terminals.Delete(terminal.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := terminal.Attach(0, true); !errors.Is(err, ErrGone) {
		t.Errorf("attached to a deleted terminal: %v", err)
	}
}

func number(t *testing.T, output, label string) int {
	t.Helper()
	_, after, _ := strings.Cut(output, label)
	digits, _, _ := strings.Cut(after, ".")
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("no number after %s in %q", label, output)
	}
	return n
}

// isRunning is false for a zombie that waits for its parent.
func isRunning(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(string(state), "Z")
}

func TestDeleteDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	terminals := newTerminals(t)
	terminal, client := start(t, terminals, Pipe, "yes")
	awaitBacklog(client)
	if err := terminals.Delete(terminal.ID); err != nil {
		t.Fatal(err)
	}
	<-client.Gone()
	if !errors.Is(client.Cause(), ErrGone) {
		t.Errorf("cause %v", client.Cause())
	}
}

func TestDeleteOfATerminalNobodyAttachedToSendsTheWaitingClientAway(t *testing.T) {
	terminals := newTerminals(t)
	terminal := create(t, terminals, Spec{})
	client, err := terminal.Attach(0, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := terminals.Delete(terminal.ID); err != nil {
		t.Fatal(err)
	}
	<-client.Gone()
	if _, err := client.Launch(PTY); !errors.Is(err, ErrGone) {
		t.Errorf("launched after the end: %v", err)
	}
}

func TestThereIsABoundAndTerminalsThatEndedMakeRoom(t *testing.T) {
	terminals := newTerminals(t)
	finished := create(t, terminals, Spec{Command: "true"})
	client := attach(t, finished, Pipe, 0)
	readAll(t, client)
	for range maxTerminals - 1 {
		create(t, terminals, Spec{})
	}
	if _, err := terminals.Create(Spec{}); !errors.Is(err, ErrTooMany) {
		t.Fatalf("with a client still reading the ended one: %v", err)
	}
	client.Detach()
	create(t, terminals, Spec{})
	if _, err := terminals.Get(finished.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("the ended terminal is still there: %v", err)
	}
	if _, err := terminals.Create(Spec{}); !errors.Is(err, ErrTooMany) {
		t.Errorf("over the bound: %v", err)
	}
}

func TestNothingIsCreatedAfterClose(t *testing.T) {
	terminals := newTerminals(t)
	terminals.Close()
	if _, err := terminals.Create(Spec{}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestTheNameInAProcessStatusMayContainAnything(t *testing.T) {
	group, session, ok := parseStat([]byte("12 (a) S 1 2 (b) 3) R 1 77 88 0 -1 4194304"))
	if !ok || group != 77 || session != 88 {
		t.Errorf("got %d, %d, %v", group, session, ok)
	}
	for _, broken := range []string{"", "12 (a", "12 (a) R 1 2", "12 (a) R 1 x y"} {
		if _, _, ok := parseStat([]byte(broken)); ok {
			t.Errorf("%q was read", broken)
		}
	}
}
