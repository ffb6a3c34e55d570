// SPDX-License-Identifier: Apache-2.0

// Package session keeps shells that live from run to run, so that variables, functions, jobs and the
// working directory stay. The end of a run is reported on a descriptor of its own: nothing a program
// prints can pass for it.
package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
)

// termGrace is how long an interrupted shell has to end by itself before SIGKILL.
const termGrace = 3 * time.Second

// Request is one run: shell text, and where it differs from the run before.
type Request struct {
	Shell   string
	Dir     string            // empty: where the last run ended
	Env     map[string]string // exported before the run
	Timeout time.Duration     // 0: none
}

// Run is one run in a session.
type Run struct {
	Journal *journal.Journal
	done    chan struct{}
	result  command.Result // set before done is closed

	isInterrupted bool // guarded by the session's mu
}

// Done is closed when the run has ended and all its output is in the journal.
func (r *Run) Done() <-chan struct{} { return r.done }

// Result waits for the end.
func (r *Run) Result() command.Result {
	<-r.done
	return r.result
}

// Session is a shell that stays. When it ends (exit, a timeout, an interrupt) the next run gets a
// new one with the working directory and exported variables as they were after the last whole run.
type Session struct {
	ID       string
	sessions *Sessions
	turn     chan struct{} // holds a token while nothing runs; runs come one after another
	gone     chan struct{} // closed by Delete

	// Only who has the turn may touch these.
	shell   *shell   // nil: none lives
	orphans []*shell // ended, but something they started still writes
	saved   state
	isLate  bool // a signal for the last run may not have come to the living shell yet

	mu     sync.Mutex
	latest *Run
	runsIn *process.Process // the shell that has the text of the latest run; nil: none has it yet, or any more
}

// state is what a new shell starts from.
type state struct {
	dir     string
	exports string            // shell text
	env     map[string]string // what the daemon had given the shell by then
}

// Start begins a run when those before it have ended. The reader begins at the run's first byte and
// must be closed.
func (s *Session) Start(ctx context.Context, request Request) (*Run, *journal.Reader, error) {
	select {
	case <-s.turn:
	case <-s.gone:
		return nil, nil, ErrUnknown
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	run := &Run{
		Journal: journal.New(filepath.Join(s.sessions.dir, command.NewID()+".journal"), s.sessions.limit),
		done:    make(chan struct{}),
	}
	run.result.Started = time.Now()
	run.Journal.Hold()
	reader := run.Journal.Read(0)
	s.announce(run)
	s.sessions.runs.Add(1)
	go func() {
		defer s.sessions.runs.Done()
		result := s.execute(run, request)
		s.conclude(run)
		s.sessions.keep.Add(run.Journal)
		run.end(result)
		s.turn <- struct{}{}
	}()
	return run, reader, nil
}

// announce makes run the latest; the one before it is forgotten.
func (s *Session) announce(run *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest != nil {
		s.latest.Journal.Discard()
	}
	s.latest = run
}

func (r *Run) end(result command.Result) {
	result.Started, result.Ended = r.result.Started, time.Now()
	r.result = result
	close(r.done)
	r.Journal.Seal()
	r.Journal.Release()
}

// execute runs request in the living shell, or in a new one, and waits for its end.
func (s *Session) execute(run *Run, request Request) command.Result {
	err := s.begin(run, request)
	if errors.Is(err, errInterrupted) {
		return command.Result{ExitCode: -1, Reason: err.Error()}
	}
	if err != nil {
		return command.Result{ExitCode: -1, StartFailed: true, Reason: err.Error()}
	}
	var timeout <-chan time.Time
	if request.Timeout > 0 {
		timer := time.NewTimer(request.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	looks := time.NewTicker(lookInterval)
	defer looks.Stop()
	waits := 0
	reports := s.shell.reports
	for {
		select {
		case report, ok := <-reports:
			if ok {
				return s.reported(report)
			}
			// It has ended, or became another program (exec), or closed its report descriptor. With
			// no more input the last kind ends by itself.
			_ = s.shell.input.Close()
			reports = nil
		case <-s.shell.process.Done():
			return s.ended("")
		case <-looks.C:
			if waits++; !s.shell.isWaiting() {
				waits = 0
			}
			if waits == looksForSilence {
				return s.silent()
			}
		case <-timeout:
			s.kill()
			return s.ended(fmt.Sprintf("timed out after %s: killed", request.Timeout))
		case <-s.gone:
			s.kill()
			return s.ended("the session was deleted")
		}
	}
}

// begin gives request to the living shell. A shell that has ended since the last run is replaced.
func (s *Session) begin(run *Run, request Request) error {
	env := s.sessions.environ.For(nil, nil)
	for attempt := 0; ; attempt++ {
		if s.isLate && s.shell != nil {
			s.awaitSignal()
		}
		if s.shell != nil && s.shell.hasEnded() {
			s.close()
		}
		if s.shell == nil {
			if err := s.open(env); err != nil {
				return err
			}
		}
		if !s.give(run) {
			return errInterrupted
		}
		err := s.shell.begin(run, changedExports(s.shell.env, env, request.Env)+request.script())
		if err == nil || attempt > 0 {
			s.shell.env = env
			return err
		}
		s.kill()
		s.ended("")
	}
}

// reported is the result of a run that went to its end in a shell that goes on.
func (s *Session) reported(r report) command.Result {
	s.shell.output.Sync()
	s.saved = state{dir: r.dir, exports: r.exports, env: s.shell.env}
	return command.Result{ExitCode: r.status, Reason: fmt.Sprintf("exit status %d", r.status)}
}

// ended is the result of a run with which its shell ended.
func (s *Session) ended(reason string) command.Result {
	exit := s.shell.process.Exit()
	s.shell.output.Sync()
	s.close()
	if reason == "" {
		reason = exit.String()
	}
	return command.Result{ExitCode: exit.Code, Reason: reason}
}

func (s *Session) open(env map[string]string) error {
	shell, err := startShell(s.sessions.table, s.sessions.dir, s.saved, env, s.gone)
	if err != nil {
		return err
	}
	s.shell, s.isLate = shell, false
	return nil
}

// close forgets an ended shell; what it started and still lives goes on.
func (s *Session) close() {
	s.takeBack()
	s.shell.close()
	s.orphans = append(slices.DeleteFunc(s.orphans, (*shell).isSilent), s.shell)
	s.shell = nil
}

func (s *Session) kill() {
	_ = s.shell.process.SignalGroup(syscall.SIGKILL) // it may have ended in this moment
}

// discard ends the shell with everything in its group and removes what it left on disk.
func (s *Session) discard() {
	if s.shell != nil {
		s.kill()
		<-s.shell.process.Done()
		s.close()
	}
	for _, shell := range s.orphans {
		shell.output.Close()
	}
	s.orphans = nil
	s.forgetOutput()
}

// forgetOutput removes the journal of the latest run; a program that waits for a slow reader of it
// waits no longer.
func (s *Session) forgetOutput() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest != nil {
		s.latest.Journal.Discard()
	}
}
