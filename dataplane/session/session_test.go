// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
)

// keptBytes is what the sessions of a test keep of their outputs.
const keptBytes = 1 << 20

var table = process.NewTable(false)

func TestMain(m *testing.M) {
	childExited := make(chan os.Signal, 1)
	signal.Notify(childExited, syscall.SIGCHLD)
	go table.Reap(childExited)
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("opensandbox.io/dataplane/process.(*Table).Reap"),
		goleak.IgnoreAnyFunction("os/signal.loop"))
}

// pathOf is a PATH with exactly the shell asked for.
func pathOf(t *testing.T, shell string) string {
	t.Helper()
	if shell == "bash" {
		return os.Getenv("PATH")
	}
	dir := t.TempDir()
	names := []string{"sh", "sleep", "cat", "kill", "sed"}
	if shell == "busybox" {
		program, err := exec.LookPath("busybox")
		if err != nil {
			t.Skip("there is no busybox here")
		}
		if err := os.Symlink(program, filepath.Join(dir, "sh")); err != nil {
			t.Fatal(err)
		}
		names = names[1:]
	}
	for _, name := range names {
		for _, from := range []string{"/bin/", "/usr/bin/"} {
			if os.Symlink(from+name, filepath.Join(dir, name)) == nil {
				break
			}
		}
	}
	return dir
}

// forEachShell runs a test with bash, with plain sh and with the sh of busybox.
func forEachShell(t *testing.T, test func(t *testing.T, s *Session)) {
	for _, shell := range []string{"bash", "sh", "busybox"} {
		t.Run(shell, func(t *testing.T) {
			dir := t.TempDir()
			environ := process.NewEnviron([]string{"PATH=" + pathOf(t, shell), "HOME=" + dir}, filepath.Join(dir, "env"))
			state := filepath.Join(dir, "state")
			if err := os.Mkdir(state, 0o700); err != nil {
				t.Fatal(err)
			}
			sessions := New(table, environ, state, journal.DefaultLimit, journal.NewKeeper(keptBytes))
			defer func() {
				sessions.Close()
				if left, _ := os.ReadDir(state); len(left) > 0 {
					t.Errorf("%d files are left behind", len(left))
				}
			}()
			s, err := sessions.Create(dir)
			if err != nil {
				t.Fatal(err)
			}
			test(t, s)
		})
	}
}

func run(t *testing.T, s *Session, text string) (string, command.Result) {
	t.Helper()
	return runRequest(t, s, Request{Shell: text})
}

func runRequest(t *testing.T, s *Session, request Request) (string, command.Result) {
	t.Helper()
	running, reader, err := s.Start(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var out strings.Builder
	for {
		chunk, err := reader.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out.String(), running.Result()
		}
		if err != nil {
			t.Fatal(err)
		}
		out.Write(chunk.Data)
	}
}

func TestVariablesFunctionsAndDirectoryStay(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, "x=1; export Y=2; f() { echo \"f $1\"; }; mkdir -p sub 2>/dev/null || true; cd /")
		if out, result := run(t, s, "echo $x $Y; f a; pwd"); out != "1 2\nf a\n/\n" || !result.Succeeded() {
			t.Errorf("got %q %+v", out, result)
		}
	})
}

func TestJobsStay(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, "sleep 1000 & job=$!")
		if out, result := run(t, s, "kill -0 $job && echo alive; kill $job; wait $job; echo $?"); !strings.HasPrefix(out, "alive\n") || !strings.HasSuffix(out, "143\n") {
			t.Errorf("got %q %+v", out, result)
		}
	})
}

func TestExitEndsTheShellAndTheNextRunFindsDirectoryAndExports(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, "export E='a  b\nc'; plain=1; cd /")
		if _, result := run(t, s, "cd /tmp; exit 7"); result.ExitCode != 7 || result.Succeeded() {
			t.Errorf("got %+v", result)
		}
		if out, _ := run(t, s, `echo "$E|$plain|$PWD"`); out != "a  b\nc||/\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestStatusIsThatOfTheLastCommand(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		if _, result := run(t, s, "(exit 3)"); result.ExitCode != 3 {
			t.Errorf("got %+v", result)
		}
		if out, result := run(t, s, "echo still here"); out != "still here\n" || !result.Succeeded() {
			t.Errorf("got %q %+v", out, result)
		}
	})
}

func TestOutputCannotPassForTheEndOfARun(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		out, result := run(t, s, `printf '0\0/\0\0'; { printf '0\0/\0\0' >&9; } 2>/dev/null; (printf '0\0/\0\0' >&9) 2>/dev/null; exit_later() { return 9; }; exit_later`)
		if result.ExitCode != 9 || !strings.HasPrefix(out, "0\x00/") {
			t.Errorf("got %q %+v", out, result)
		}
	})
}

func TestStderrIsMergedAndStdinIsEmpty(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		if out, _ := run(t, s, "echo a; echo b >&2; cat; echo c"); out != "a\nb\nc\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestATimeoutKillsTheShellAndTheSessionGoesOn(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, "export KEPT=1")
		_, result := runRequest(t, s, Request{Shell: "sleep 1000", Timeout: 100 * time.Millisecond})
		if result.ExitCode != -1 || !strings.Contains(result.Reason, "timed out") {
			t.Errorf("got %+v", result)
		}
		if out, _ := run(t, s, "echo $KEPT"); out != "1\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestLongTextAndQuotesRunUnchanged(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		text := `v='it'"'"'s'; # ` + strings.Repeat("y", 64<<10) + "\n" + `echo "$v"; n() { echo kept; }`
		if out, _ := run(t, s, text); out != "it's\n" {
			t.Errorf("got %q", out)
		}
		if out, _ := run(t, s, "n"); out != "kept\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestASyntaxErrorFailsTheRunOnly(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		if _, result := run(t, s, "if then ("); result.Succeeded() {
			t.Errorf("got %+v", result)
		}
		if out, _ := run(t, s, "echo ok"); out != "ok\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestAShellKilledBetweenRunsIsReplaced(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, "export KEPT=1")
		_ = s.shell.process.SignalGroup(syscall.SIGKILL)
		<-s.shell.process.Done()
		if out, result := run(t, s, "echo $KEPT"); out != "1\n" || !result.Succeeded() {
			t.Errorf("got %q %+v", out, result)
		}
	})
}

func TestRunsComeOneAfterAnother(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, "n=0")
		done := make(chan struct{})
		for range 20 {
			go func() {
				run(t, s, "m=$n; n=$((m+1))")
				done <- struct{}{}
			}()
		}
		for range 20 {
			<-done
		}
		if out, _ := run(t, s, "echo $n"); out != "20\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestTheEnvFileReachesALivingShell(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, "true")
		run(t, s, `echo "LATER='x y'" >> "$EXECD_ENVS"`)
		if out, _ := run(t, s, `echo "$LATER"`); out != "x y\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestDeletingASessionEndsItsRun(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		running, reader, err := s.Start(context.Background(), Request{Shell: "echo ready; sleep 1000"})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		if _, err := reader.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := s.sessions.Delete(s.ID); err != nil {
			t.Fatal(err)
		}
		if result := running.Result(); result.Succeeded() {
			t.Errorf("got %+v", result)
		}
		if _, _, err := s.Start(context.Background(), Request{Shell: "true"}); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v", err)
		}
	})
}

func TestARunThatIsInterruptedBeforeItsShellHasStartedDoesNotBegin(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, "export kept=yes")
		for range 20 {
			run(t, s, "exit 1") // the next run starts a shell
			running, reader, err := s.Start(context.Background(), Request{Shell: "sleep 1000"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Interrupt(); err != nil {
				t.Fatal(err)
			}
			if result := running.Result(); result.Succeeded() {
				t.Errorf("got %+v", result)
			}
			reader.Close()
		}
		if out, _ := run(t, s, "echo $kept"); out != "yes\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestAnInterruptEndsTheRun(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		running, reader, err := s.Start(context.Background(), Request{Shell: "echo ready; sleep 1000; echo not reached"})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		if _, err := reader.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := s.Interrupt(); err != nil {
			t.Fatal(err)
		}
		if result := running.Result(); result.Succeeded() {
			t.Errorf("got %+v", result)
		}
		if err := s.Interrupt(); !errors.Is(err, process.ErrNotRunning) {
			t.Errorf("got %v", err)
		}
	})
}
