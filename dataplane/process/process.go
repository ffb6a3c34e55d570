// SPDX-License-Identifier: Apache-2.0

// Package process starts programs, waits for them and signals them. It is the only place in the
// daemon that forks, so it is also the only place that reaps.
package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotRunning says that the process has ended, so there is nothing left to signal.
var ErrNotRunning = errors.New("process is not running")

// ErrFull says that there are as many processes and threads as may be.
var ErrFull = errors.New("the sandbox has as many processes as its limit (pids) allows; end some")

// Spec says what to start. Nothing in it is looked up or expanded any more.
type Spec struct {
	Path     string // executable file
	Argv     []string
	Env      []string
	Dir      string
	Files    []*os.File // become descriptors 0, 1, 2, …; nil: closed
	Identity *Identity  // nil: the daemon's own
	Terminal bool       // Files[0] becomes the controlling terminal
	// Foreground gives the new group the terminal that Files[0] is, when it is ours.
	Foreground bool
	// EndsGroup kills what is left of the group when the process ends.
	EndsGroup bool
}

// Exit is how a process ended: by itself with Code, or by Signal (then Code is -1).
type Exit struct {
	Code   int
	Signal syscall.Signal
}

func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// ShellStatus is the exit in one number, as a shell and a container runtime count: 128+n for signal n.
func (e Exit) ShellStatus() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Process is a started program, leader of its own process group.
type Process struct {
	table *Table
	pid   int
	done  chan struct{}
	exit  Exit // set before done is closed

	endsGroup bool
}

// Done is closed when the process has ended and been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the process ended; it waits for the end.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// PID is the process's number, which is also that of its group. It may be another's once Done is closed.
func (p *Process) PID() int { return p.pid }

// Signal sends sig to the process and not to its group.
func (p *Process) Signal(sig syscall.Signal) error { return p.table.kill(p, p.pid, sig) }

// SignalGroup sends sig to every process of the group.
func (p *Process) SignalGroup(sig syscall.Signal) error { return p.table.kill(p, -p.pid, sig) }

// Table knows every child of the daemon, collects their exits and, when told to, the exits of
// orphans the kernel handed to it.
type Table struct {
	mu           sync.Mutex // held over fork and over reaping: an exit always finds its Process
	live         map[int]*Process
	adoptOrphans bool
	fork         fork
}

// NewTable makes an empty table. With adoptOrphans it reaps every child of this operating system
// process, also those it did not start: right for the daemon, wrong beside os/exec.
func NewTable(adoptOrphans bool) *Table {
	return &Table{live: map[int]*Process{}, adoptOrphans: adoptOrphans, fork: syscall.ForkExec}
}

// BecomeSubreaper makes orphaned descendants children of this process when it is not PID 1.
func BecomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// Start runs spec as the leader of a new process group (of a new session with Terminal).
func (t *Table) Start(spec Spec) (*Process, error) {
	files := make([]uintptr, len(spec.Files))
	for i, f := range spec.Files {
		files[i] = ^uintptr(0) // closed in the child
		if f != nil {
			files[i] = f.Fd()
		}
	}
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: files, Sys: &syscall.SysProcAttr{}}
	if spec.Terminal {
		attr.Sys.Setsid, attr.Sys.Setctty = true, true
	} else {
		attr.Sys.Setpgid = true
		attr.Sys.Foreground = spec.Foreground
	}
	if spec.Identity != nil {
		attr.Sys.Credential = spec.Identity.credential()
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	pid, err := t.fork(spec.Path, spec.Argv, attr)
	if err == syscall.EAGAIN {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], ErrFull)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	p := &Process{table: t, pid: pid, done: make(chan struct{}), endsGroup: spec.EndsGroup}
	t.live[pid] = p
	return p, nil
}

// Adopt takes charge of a process that somebody else forked, that leads its own process group and
// that the kernel has handed to us as an orphan. Its group ends with it. One that does not end by
// itself but has been reaped was killed.
func (t *Table) Adopt(pid int) *Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &Process{table: t, pid: pid, done: make(chan struct{}), endsGroup: true}
	if unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == unix.ECHILD {
		p.exit = Exit{Code: -1, Signal: syscall.SIGKILL}
		close(p.done)
		return p
	}
	t.live[pid] = p
	return p
}

// Reap collects exits each time childExited delivers, until it is closed. The channel comes from
// signal.Notify(…, SIGCHLD) in main.
func (t *Table) Reap(childExited <-chan os.Signal) {
	for range childExited {
		t.reap()
	}
}

func (t *Table) reap() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.adoptOrphans {
		for t.collect(-1) {
		}
		return
	}
	for pid := range t.live {
		t.collect(pid)
	}
}

// collect takes one exit of pid, or of any child for -1, and reports whether there was one.
func (t *Table) collect(pid int) bool {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	for err == syscall.EINTR {
		got, err = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	}
	if err != nil || got <= 0 {
		return false
	}
	if p := t.live[got]; p != nil {
		delete(t.live, got)
		if p.endsGroup { // its number is nobody else's while there is somebody in the group
			_ = syscall.Kill(-got, syscall.SIGKILL)
		}
		p.exit = Exit{Code: status.ExitStatus()}
		if status.Signaled() {
			p.exit = Exit{Code: -1, Signal: status.Signal()}
		}
		close(p.done)
	}
	return true
}

// kill signals target while p is certainly not reaped, so that the number cannot be another's.
func (t *Table) kill(p *Process, target int, sig syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live[p.pid] != p {
		return ErrNotRunning
	}
	return syscall.Kill(target, sig)
}

// KillAll sends SIGKILL to the group of every live process.
func (t *Table) KillAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid := range t.live {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it may be a zombie already
	}
}
