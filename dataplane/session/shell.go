// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
)

// A shell reads what to do from its standard input and reports on reportFD after each run: exit
// status, working directory and exports, each ended by NUL. Text that runs has neither: it reads
// /dev/null, and the report descriptor is closed for it and for all it starts.
const reportFD = 9

// The backslash is against aliases, "command" against functions. The line must not begin with a
// reserved word: after an eval of text with an open quote bash does not know one.
const reportScript = `\command eval '{ \command printf "%s\0%s\0" "$?" "$PWD"; export -p; \command printf "\0"; } >&9 2>/dev/null'` + "\n"

// longScript is when text goes to the shell through a file: a shell reads its input byte by byte.
const longScript = 16 << 10

// maxExports bounds what is kept of the exports of a run.
const maxExports = 4 << 20

// report is what a shell says at the end of a run.
type report struct {
	status  int
	dir     string
	exports string
}

// shell is one living shell process.
type shell struct {
	process *process.Process
	input   *os.File
	output  *command.Capture
	pipe    *os.File // of reports
	reports chan report
	script  string            // path of the file for long text
	env     map[string]string // what the daemon gave it so far; only for who has the turn

	mu  sync.Mutex
	run *Run // whose journal takes the output; nil: nobody wants it
}

// startLimit bounds how long a shell takes to begin: a file named by BASH_ENV may never end.
const startLimit = 30 * time.Second

// startShell starts a shell in the saved state and waits until it has taken it over, or gone is closed.
func startShell(table *process.Table, dir string, saved state, env map[string]string, gone <-chan struct{}) (*shell, error) {
	path, isBash, err := process.FindShell(env)
	if err != nil {
		return nil, err
	}
	argv := []string{path}
	if isBash {
		argv = []string{path, "--noprofile", "--norc"}
	}
	s := &shell{script: filepath.Join(dir, command.NewID()+".sh"), reports: make(chan report), env: env}
	if saved.exports != "" {
		s.env = saved.env // they come over env: what changed since then is to be given again
	}
	if err := s.start(table, process.Spec{Path: path, Argv: argv, Env: process.List(env), Dir: usable(saved.dir)}); err != nil {
		return nil, err
	}
	started := make(chan struct{})
	defer close(started)
	go s.killUnless(started, gone)
	if _, err := s.input.WriteString(saved.exports + "\n" + "cd -- " + quote(orDot(saved.dir)) + " 2>/dev/null\n" + reportScript); err == nil {
		select {
		case _, ok := <-s.reports:
			if ok {
				return s, nil
			}
		case <-s.process.Done():
		}
	}
	_ = s.process.SignalGroup(syscall.SIGKILL)
	exit := s.process.Exit()
	s.close()
	return nil, fmt.Errorf("the shell did not start: %s", exit)
}

// killUnless ends a shell that has not started when gone is closed or the limit is reached.
func (s *shell) killUnless(started, gone <-chan struct{}) {
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case <-started:
	case <-gone:
		_ = s.process.SignalGroup(syscall.SIGKILL) // it may have ended in this moment
	case <-limit.C:
		_ = s.process.SignalGroup(syscall.SIGKILL)
	}
}

// start makes the pipes, the process and the two readers.
func (s *shell) start(table *process.Table, spec process.Spec) error {
	childInput, input, err := process.InputPipe()
	if err != nil {
		return err
	}
	defer childInput.Close()
	output, childOutput, err := process.OutputPipe()
	if err != nil {
		input.Close()
		return err
	}
	defer childOutput.Close()
	reports, childReports, err := process.OutputPipe()
	if err == nil {
		defer childReports.Close()
		spec.Files = make([]*os.File, reportFD+1)
		spec.Files[0], spec.Files[1], spec.Files[2], spec.Files[reportFD] = childInput, childOutput, childOutput, childReports
		s.process, err = table.Start(spec)
	}
	if err != nil {
		input.Close()
		output.Close()
		if reports != nil {
			reports.Close()
		}
		return err
	}
	s.input, s.pipe = input, reports
	s.output = command.NewCapture(output, s.take)
	go s.output.Run()
	go s.readReports()
	return nil
}

// take gives output to the run it belongs to. Between runs it goes to the last one's journal, where
// a replay finds it.
func (s *shell) take(data []byte) {
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	if run != nil {
		_ = run.Journal.Append(journal.Stdout, data) // a journal that is gone must not stop the program
	}
}

// begin sends script to the shell; its report comes on s.reports.
func (s *shell) begin(run *Run, script string) error {
	s.mu.Lock()
	s.run = run
	s.mu.Unlock()
	if len(script) > longScript {
		if err := os.WriteFile(s.script, []byte(script), 0o600); err != nil {
			return fmt.Errorf("keep long command: %w", err)
		}
		script = ". " + quote(s.script) + "\n"
	}
	_, err := s.input.WriteString(script + reportScript)
	return err
}

// readReports turns the report pipe into reports until the shell has ended.
func (s *shell) readReports() {
	defer close(s.reports)
	in := bufio.NewReader(s.pipe)
	for {
		var fields [3]string
		for i := range fields {
			field, err := readField(in)
			if err != nil {
				return
			}
			fields[i] = field
		}
		status, err := strconv.Atoi(fields[0])
		if err != nil {
			return
		}
		select {
		case s.reports <- report{status: status, dir: fields[1], exports: fields[2]}:
		case <-s.process.Done():
			return
		}
	}
}

// readField reads up to NUL; a field beyond the bound is read and not kept, not even in part: half of
// the exports would be no shell text.
func readField(in *bufio.Reader) (string, error) {
	var field []byte
	isTooLong := false
	for {
		part, err := in.ReadSlice(0)
		isTooLong = isTooLong || len(field)+len(part) > maxExports
		if isTooLong {
			field = nil
		} else {
			field = append(field, part...)
		}
		if err == nil {
			return strings.TrimSuffix(string(field), "\x00"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
}

// close releases our side of an ended shell. What it started may live on and write: that goes
// nowhere, until the last of them has gone.
func (s *shell) close() {
	s.mu.Lock()
	s.run = nil
	s.mu.Unlock()
	_ = s.input.Close()
	_ = s.pipe.Close()
	_ = os.Remove(s.script) // most shells had no long text
}

func (s *shell) hasEnded() bool {
	select {
	case <-s.process.Done():
		return true
	default:
		return false
	}
}

// isSilent reports that nothing is left that could write.
func (s *shell) isSilent() bool { return s.output.IsOver() }

// changedExports is the text that brings the environment of a living shell up to date.
func changedExports(before, now, request map[string]string) string {
	var lines []string
	add := func(name, value string) {
		if process.IsVariableName(name) {
			lines = append(lines, "export "+name+"="+quote(value)+"\n")
		}
	}
	for name, value := range now {
		if old, ok := before[name]; !ok || old != value {
			add(name, value)
		}
	}
	for name, value := range request {
		add(name, value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// script is the text of a run for the shell. The text reads nothing and cannot report.
func (r Request) script() string {
	script := `\command eval ` + quote(r.Shell) + " </dev/null 9>&-\n"
	if r.Dir != "" {
		return "cd -- " + quote(r.Dir) + " && " + script
	}
	return script
}

// quote makes text one word for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func orDot(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// usable is dir, or the root when it no longer exists.
func usable(dir string) string {
	if dir == "" {
		return ""
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "/"
	}
	return dir
}
