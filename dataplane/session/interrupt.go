// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"syscall"
	"time"

	"opensandbox.io/dataplane/process"
)

// errInterrupted is why a run has not begun.
var errInterrupted = errors.New("interrupted before it began")

// Interrupt ends what runs now, and with it the shell, unless the shell has a trap for that. The run
// after it is never meant: no signal is sent to a shell that does not have the text of the run, or
// has reported its end.
func (s *Session) Interrupt() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.latest
	if run == nil {
		return process.ErrNotRunning
	}
	select {
	case <-run.done:
		return process.ErrNotRunning
	default:
	}
	run.isInterrupted = true
	if s.runsIn == nil {
		return nil // it will not begin
	}
	if err := s.runsIn.SignalGroup(syscall.SIGTERM); err != nil {
		return err
	}
	_ = s.runsIn.SignalGroup(syscall.SIGCONT) // stopped processes do not see SIGTERM before they go on
	time.AfterFunc(termGrace, func() { s.giveUp(run) })
	return nil
}

// giveUp kills the shell of a run that does not end.
func (s *Session) giveUp(run *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == run && s.runsIn != nil {
		_ = s.runsIn.SignalGroup(syscall.SIGKILL) // it may have ended in this moment
	}
}

// give says that the living shell gets the text of run, unless somebody has asked it to end.
func (s *Session) give(run *Run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !run.isInterrupted {
		s.runsIn = s.shell.process
	}
	return !run.isInterrupted
}

// takeBack says that no shell has the text of the latest run.
func (s *Session) takeBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runsIn = nil
}

// conclude says that run is over: nobody sends a signal for it any more. One that was sent may still
// be on its way to a shell that has reported the end.
func (s *Session) conclude(run *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isLate = s.isLate || run.isInterrupted && s.runsIn != nil
	s.runsIn = nil
}

// awaitSignal lets the shell do something else before it gets another run: a signal comes before
// that. Afterwards it has ended, or has a trap and lives on.
func (s *Session) awaitSignal() {
	s.isLate = false
	limit := time.NewTimer(termGrace)
	defer limit.Stop()
	if _, err := s.shell.input.WriteString(reportScript); err == nil {
		select {
		case _, isAlive := <-s.shell.reports:
			if isAlive {
				return
			}
		case <-s.shell.process.Done():
		case <-s.gone:
		case <-limit.C:
		}
	}
	s.kill()
	<-s.shell.process.Done()
}
