// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
)

var table = process.NewTable(false)

func TestMain(m *testing.M) {
	childExited := make(chan os.Signal, 1)
	signal.Notify(childExited, syscall.SIGCHLD)
	go table.Reap(childExited)
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("opensandbox.io/dataplane/process.(*Table).Reap"),
		goleak.IgnoreAnyFunction("os/signal.loop"))
}

func newCommands(t *testing.T) *Commands {
	t.Helper()
	dir := t.TempDir()
	c := New(table, dir, journal.DefaultLimit, journal.NewKeeper(journal.KeptBytes), slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		c.Close()
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%d files are left behind", len(left))
		}
	})
	return c
}

func shell(text string) Request {
	return Request{Shell: text, Env: map[string]string{"PATH": os.Getenv("PATH")}}
}

// read collects the output of a command up to its end.
func read(t *testing.T, reader *journal.Reader) (stdout, stderr string) {
	t.Helper()
	defer reader.Close()
	for {
		chunk, err := reader.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return stdout, stderr
		}
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Source == journal.Stdout {
			stdout += string(chunk.Data)
		} else {
			stderr += string(chunk.Data)
		}
	}
}

func run(t *testing.T, c *Commands, request Request) (stdout, stderr string, result Result) {
	t.Helper()
	cmd, reader, err := c.Start(request)
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr = read(t, reader)
	return stdout, stderr, cmd.Result()
}

func TestACommandTellsItsOutputAndItsExit(t *testing.T) {
	stdout, stderr, result := run(t, newCommands(t), shell("echo out; echo err >&2; exit 3"))
	if stdout != "out\n" || stderr != "err\n" || result.ExitCode != 3 || result.Succeeded() {
		t.Errorf("got %q %q %+v", stdout, stderr, result)
	}
}

func TestArgumentsAreNotTouchedByAShell(t *testing.T) {
	stdout, _, result := run(t, newCommands(t), Request{Argv: []string{"printf", "%s|", "$HOME", "a b", "*"}, Env: map[string]string{"PATH": os.Getenv("PATH")}})
	if stdout != "$HOME|a b|*|" || !result.Succeeded() {
		t.Errorf("got %q %+v", stdout, result)
	}
}

func TestAProgramThatCannotStartIsAFailedCommand(t *testing.T) {
	_, _, result := run(t, newCommands(t), Request{Argv: []string{"/no/such/program"}, Env: map[string]string{}})
	if !result.StartFailed || result.ExitCode != 255 || !strings.Contains(result.Reason, "no such file") {
		t.Errorf("got %+v", result)
	}
}

func TestATimeoutKillsTheWholeGroup(t *testing.T) {
	request := shell("sleep 1000 & echo $!; sleep 1000")
	request.Timeout = 200 * time.Millisecond
	stdout, _, result := run(t, newCommands(t), request)
	if result.ExitCode != -1 || !strings.Contains(result.Reason, "timed out after 200ms") {
		t.Errorf("got %+v", result)
	}
	child := strings.TrimSpace(stdout)
	for range 1000 { // the orphan is init's to reap; until then it is a zombie
		stat, err := os.ReadFile("/proc/" + child + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("child %s still lives", child)
}

func TestACommandEndsWithItsLeaderAndItsChildrenMayGoOnWriting(t *testing.T) {
	c := newCommands(t)
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, reader, err := c.Start(shell("(read x < " + gate + "; echo late) & echo early"))
	if err != nil {
		t.Fatal(err)
	}
	if stdout, _ := read(t, reader); stdout != "early\n" {
		t.Errorf("got %q", stdout)
	}
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	for cmd.Journal.Size() < int64(len("early\nlate\n")) {
		time.Sleep(time.Millisecond)
	}
	if stdout, _ := read(t, cmd.Journal.Read(0)); stdout != "early\nlate\n" {
		t.Errorf("later got %q", stdout)
	}
}

func TestAChildThatWritesForEverDoesNotDelayTheEnd(t *testing.T) {
	_, _, result := run(t, newCommands(t), shell("yes & sleep 0.1; kill -STOP $!; kill -CONT $!; exit 4"))
	if result.ExitCode != 4 {
		t.Errorf("got %+v", result)
	}
}

func TestAnInterruptedCommandEnds(t *testing.T) {
	c := newCommands(t)
	cmd, reader, err := c.Start(shell("echo ready; sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Interrupt(); err != nil {
		t.Fatal(err)
	}
	read(t, reader)
	if result := cmd.Result(); result.ExitCode != -1 || result.Reason != "signal: terminated" {
		t.Errorf("got %+v", result)
	}
	if err := cmd.Interrupt(); !errors.Is(err, process.ErrNotRunning) {
		t.Errorf("second interrupt: %v", err)
	}
}

func TestStdinReachesTheProgramAndEndsWhenClosed(t *testing.T) {
	c := newCommands(t)
	request := shell("cat; echo end")
	request.HasStdin = true
	cmd, reader, err := c.Start(request)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one ", "two "} {
		if err := cmd.WriteStdin(context.Background(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	if stdout, _ := read(t, reader); stdout != "one two end\n" {
		t.Errorf("got %q", stdout)
	}
	if err := cmd.WriteStdin(context.Background(), []byte("x")); !errors.Is(err, ErrNoStdin) {
		t.Errorf("after the end: %v", err)
	}
}

func TestAWriterOfStdinThatLeavesDoesNotHang(t *testing.T) {
	c := newCommands(t)
	request := shell("sleep 1000")
	request.HasStdin = true
	cmd, reader, err := c.Start(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := cmd.WriteStdin(ctx, make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestALongScriptRuns(t *testing.T) {
	text := "# " + strings.Repeat("x", 300<<10) + "\necho done; exit 5"
	c := newCommands(t)
	cmd, reader, err := c.Start(shell(text))
	if err != nil {
		t.Fatal(err)
	}
	if stdout, _ := read(t, reader); stdout != "done\n" || cmd.Result().ExitCode != 5 {
		t.Errorf("got %q %+v", stdout, cmd.Result())
	}
	if cmd.Content() != text {
		t.Error("the content was not kept")
	}
}

func TestABackgroundCommandGoesOnAndIsRemembered(t *testing.T) {
	c := newCommands(t)
	request := shell("echo background")
	request.IsBackground = true
	started, reader, err := c.Start(request)
	if err != nil || reader != nil {
		t.Fatal(reader, err)
	}
	cmd, err := c.Get(started.ID)
	if err != nil {
		t.Fatal(err)
	}
	if result := cmd.Result(); !result.Succeeded() {
		t.Errorf("got %+v", result)
	}
	if stdout, _ := read(t, cmd.Journal.Read(0)); stdout != "background\n" {
		t.Errorf("got %q", stdout)
	}
	if _, err := c.Get("unknown"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestNothingStartsAfterClose(t *testing.T) {
	c := newCommands(t)
	c.Close()
	if _, _, err := c.Start(shell("true")); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
