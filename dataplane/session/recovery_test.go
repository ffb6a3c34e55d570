// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestAProgramThatReplacesTheShellRunsToItsEnd(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		if out, result := run(t, s, "exec sh -c 'sleep 0.3; echo done; exit 4'"); out != "done\n" || result.ExitCode != 4 {
			t.Errorf("got %q %+v", out, result)
		}
	})
}

func TestAnOpenQuoteDoesNotEndTheShell(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, "true")
		out, result := run(t, s, "echo 'a")
		if result.Succeeded() || strings.Contains(out, "printf") {
			t.Errorf("got %q %+v", out, result)
		}
	})
}

func TestExportsBeyondTheBoundDoNotStopTheNextShell(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		run(t, s, `a=0123456789abcdef; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do a=$a$a; done; export A="$a"`)
		run(t, s, "exit 1")
		if out, _ := run(t, s, "echo hello"); out != "hello\n" {
			t.Errorf("got %q", out)
		}
	})
}

func TestADeletedSessionDoesNotWaitForAShellThatNeverBegins(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		s.saved.exports = "sleep 1000"
		_, reader, err := s.Start(context.Background(), Request{Shell: "true"})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		if err := s.sessions.Delete(s.ID); err != nil {
			t.Error(err)
		}
	})
}

func TestAnInterruptIsNotForTheRunAfter(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		dir := s.saved.dir
		first, reader, err := s.Start(context.Background(), Request{Shell: "trap : TERM; echo ready; while [ ! -e stop ]; do sleep 0.02; done"})
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
		if err := os.WriteFile(dir+"/stop", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		first.Result()

		if out, result := run(t, s, fmt.Sprintf("sleep %d; echo fine", int(termGrace/time.Second)+1)); out != "fine\n" {
			t.Errorf("got %q %+v", out, result)
		}
	})
}

func TestAnInterruptAtAnyMomentIsNotForTheRunAfter(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		for i := range 60 {
			running, reader, err := s.Start(context.Background(), Request{Shell: "echo brief"})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(i) * 20 * time.Microsecond)
			_ = s.Interrupt() // there may be nothing to interrupt any more
			running.Result()
			reader.Close()
			if out, result := run(t, s, "echo fine"); out != "fine\n" {
				t.Fatalf("after round %d: got %q %+v", i, out, result)
			}
		}
	})
}

func TestANewShellKnowsWhatTheEnvFileSaysNow(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		file := s.saved.dir + "/env"
		for _, value := range []string{"old", "new"} {
			if err := os.WriteFile(file, []byte("FOO="+value+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, _ := run(t, s, "echo $FOO"); out != value+"\n" {
				t.Errorf("got %q, want %s", out, value)
			}
			run(t, s, "exit 1")
		}
	})
}

func TestSessionsTogetherKeepABoundedOutput(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *Session) {
		fill := "x=0123456789abcdef; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do x=$x$x; done; echo $x" // 512 KiB
		var all []*Session
		for range 4 {
			other, err := s.sessions.Create("/")
			if err != nil {
				t.Fatal(err)
			}
			run(t, other, fill)
			all = append(all, other)
		}
		kept := int64(0)
		for _, other := range all {
			kept += other.latest.Journal.Kept()
		}
		if kept > keptBytes || all[3].latest.Journal.Kept() == 0 || all[0].latest.Journal.Kept() != 0 {
			t.Errorf("%d bytes are kept", kept)
		}
		if out, result := run(t, all[0], "echo fine"); out != "fine\n" || !result.Succeeded() {
			t.Errorf("got %q %+v", out, result)
		}
	})
}
