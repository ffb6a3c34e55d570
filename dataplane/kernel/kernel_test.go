// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
	"opensandbox.io/dataplane/session"
)

var table = process.NewTable(false)

func TestMain(m *testing.M) {
	if err := process.BecomeSubreaper(); err != nil { // forked Python contexts become our children
		panic(err)
	}
	childExited := make(chan os.Signal, 1)
	signal.Notify(childExited, syscall.SIGCHLD)
	go table.Reap(childExited)
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("opensandbox.io/dataplane/process.(*Table).Reap"),
		goleak.IgnoreAnyFunction("os/signal.loop"))
}

// testTimeout is how long a test waits for something that must happen before it calls it missing.
const testTimeout = 60 * time.Second

func newContexts(t *testing.T) *Contexts {
	t.Helper()
	dir := t.TempDir()
	environ := process.NewEnviron(os.Environ(), filepath.Join(dir, "env"))
	sessions := session.New(table, environ, dir, journal.DefaultLimit, journal.NewKeeper(journal.KeptBytes))
	contexts := New(table, environ, sessions, dir, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		contexts.Close()
		sessions.Close()
	})
	return contexts
}

// newContext makes a context, or skips the test where the language is missing.
func newContext(t *testing.T, contexts *Contexts, language string) *Context {
	t.Helper()
	made, err := contexts.Create(language, "", nil)
	if errors.Is(err, ErrNoKernel) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// result is a run, folded.
type result struct {
	out, err string
	results  []Result
	failure  *event.Error
}

func run(t *testing.T, c *Context, request Request) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	running, err := c.Start(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	return follow(t, running)
}

func follow(t *testing.T, running *Run) result {
	t.Helper()
	defer running.Abandon()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	var got result
	for {
		next, err := running.Next(ctx)
		if errors.Is(err, io.EOF) {
			got.failure = running.Outcome().Error
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		switch next.Kind {
		case event.Stdout:
			got.out += string(next.Text)
		case event.Stderr:
			got.err += string(next.Text)
		case event.Result:
			got.results = append(got.results, *next.Result)
		}
	}
}

// cells are one cell for each language whose value or output is 42.
var cells = map[string]string{
	"python": "6 * 7", "bash": "echo 42", "javascript": "6 * 7", "java": "6 * 7",
}

func TestEveryLanguageRunsACell(t *testing.T) {
	for language, cell := range cells {
		t.Run(language, func(t *testing.T) {
			got := run(t, newContext(t, newContexts(t), language), Request{Code: cell})
			if got.failure != nil {
				t.Fatal(got.failure)
			}
			if language == "bash" && got.out == "42\n" {
				return
			}
			if len(got.results) != 1 || string(got.results[0].Data["text/plain"]) != `"42"` || got.results[0].Count != 1 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestRunsOfOneContextComeOneAfterAnother(t *testing.T) {
	c := newContext(t, newContexts(t), "bash")
	first, err := c.Start(context.Background(), Request{Code: "sleep 0.2; x=1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, c, Request{Code: "echo [$x]"}); got.out != "[1]\n" {
		t.Errorf("got %+v", got)
	}
	follow(t, first)
}

func TestARunThatIsNotWaitedForIsNotRun(t *testing.T) {
	c := newContext(t, newContexts(t), "bash")
	first, err := c.Start(context.Background(), Request{Code: "sleep 0.2"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Start(ctx, Request{Code: "y=1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	follow(t, first)
	if got := run(t, c, Request{Code: "echo [$y]"}); got.out != "[]\n" {
		t.Errorf("got %+v", got)
	}
}

func TestASlowReaderHoldsTheCodeBackAndAbandoningLetsItGo(t *testing.T) {
	c := newContext(t, newContexts(t), "bash")
	running, err := c.Start(context.Background(), Request{Code: "yes | head -c 50000000; x=done"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := running.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	running.Abandon()
	if got := run(t, c, Request{Code: "echo $x"}); got.out != "done\n" {
		t.Errorf("got %+v", got)
	}
}

func TestDeletingWhileItRunsEndsTheRun(t *testing.T) {
	for _, language := range []string{"bash", "python"} {
		t.Run(language, func(t *testing.T) {
			contexts := newContexts(t)
			c := newContext(t, contexts, language)
			running, err := c.Start(context.Background(), Request{Code: map[string]string{"bash": "echo up; sleep 1000", "python": "print('up', flush=True)\nwhile True: pass"}[language]})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := running.Next(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := contexts.Delete(c.ID); err != nil {
				t.Fatal(err)
			}
			if got := follow(t, running); got.failure == nil || got.failure.Name != "ContextDeleted" {
				t.Errorf("got %+v", got)
			}
			if _, err := c.Start(context.Background(), Request{Code: "1"}); !errors.Is(err, ErrUnknown) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestATimeoutInterruptsAndSaysSo(t *testing.T) {
	c := newContext(t, newContexts(t), "python")
	got := run(t, c, Request{Code: "while True: pass", Timeout: 100 * time.Millisecond})
	if got.failure == nil || got.failure.Name != "TimeoutError" || !strings.Contains(got.failure.Value, "100ms") {
		t.Errorf("got %+v", got.failure)
	}
}

func TestTheParentOfPythonIsReplacedWhenItIsKilled(t *testing.T) {
	contexts := newContexts(t)
	newContext(t, contexts, "python") // the first, which needs no parent
	one := newContext(t, contexts, "python")
	run(t, one, Request{Code: "x = 1"})
	contexts.python.mu.Lock()
	_ = contexts.python.process.SignalGroup(syscall.SIGKILL)
	<-contexts.python.process.Done()
	contexts.python.mu.Unlock()
	other := newContext(t, contexts, "python")
	for c, want := range map[*Context]string{one: `"1"`, other: `"2"`} {
		code := map[string]string{`"1"`: "x", `"2"`: "1 + 1"}[want]
		if got := run(t, c, Request{Code: code}); got.failure != nil || string(got.results[0].Data["text/plain"]) != want {
			t.Errorf("%s: got %+v", code, got)
		}
	}
}

func TestThereIsOneDefaultContextOfALanguage(t *testing.T) {
	contexts := newContexts(t)
	found := make(chan *Context, 8)
	for range cap(found) {
		go func() {
			made, err := contexts.Default("sh")
			if err != nil {
				t.Error(err)
			}
			found <- made
		}()
	}
	first := <-found
	for range cap(found) - 1 {
		if other := <-found; other != first || other.Language != "bash" {
			t.Errorf("got %+v and %+v", first, other)
		}
	}
}

func TestTooManyContextsAreRefused(t *testing.T) {
	contexts := newContexts(t)
	for range maxContexts {
		newContext(t, contexts, "bash")
	}
	if _, err := contexts.Create("bash", "", nil); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v", err)
	}
}

func TestALanguageThatIsMissingIsAnError(t *testing.T) {
	if _, err := newContexts(t).Create("klingon", "", nil); !errors.Is(err, ErrNoKernel) {
		t.Errorf("got %v", err)
	}
}

// A runner that does not begin as one must say so and leave nothing behind.
func TestAProgramThatIsNoRunnerIsAnError(t *testing.T) {
	program, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for script, want := range map[string]string{
		"echo words >&2; exit 1":     "words",
		"echo words >&2; exit 3":     ErrNoKernel.Error(),
		"echo not-json >&3; sleep 9": "not-json",
		"kill -KILL $$":              "killed",
	} {
		spec := process.Spec{Path: program, Argv: []string{"sh", "-c", script}, Env: os.Environ()}
		if _, err := startRunner(table, spec, make(chan struct{})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", script, err)
		}
	}
}

func TestLanguagesThatDoNotExistAreNotRemembered(t *testing.T) {
	contexts := newContexts(t)
	for i := range 100 {
		if _, err := contexts.Default(fmt.Sprintf("language-%d", i%10)); !errors.Is(err, ErrNoKernel) {
			t.Fatal(err)
		}
	}
	if n := len(contexts.defaults) + len(contexts.byID); n != 0 {
		t.Errorf("%d languages are remembered", n)
	}
}

func TestWhatIsTooMuchToKeepBetweenTwoRunsIsTold(t *testing.T) {
	var between reporter
	for range 10_000 {
		between.report(Event{Kind: event.Result, Result: &Result{}})
	}
	between.report(Event{Kind: event.Stdout, Text: make([]byte, maxKept)})
	if len(between.kept) > maxKept/keptCost {
		t.Errorf("%d events are kept", len(between.kept))
	}
	run := newRun()
	go func() {
		between.begin(run)
		run.end(nil)
	}()
	if got := follow(t, run); !strings.Contains(got.err, "65536 more bytes") {
		t.Errorf("got %q", got.err)
	}
}

func TestAFormThatNoClientCanBeGivenIsNotKeptForOneThatIsSlow(t *testing.T) {
	run := newRun()
	shown := reporter{run: run}
	large := json.RawMessage(`"` + strings.Repeat("x", event.MaxFrame) + `"`)
	shown.show(Result{Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"small"`), "text/html": large}})
	run.end(nil)
	got := follow(t, run)
	if len(got.results) != 1 || len(got.results[0].Data) != 1 || !strings.Contains(got.err, "text/html") {
		t.Errorf("got %d results and %q", len(got.results), got.err)
	}
}
