// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"opensandbox.io/dataplane/process"
)

const (
	defaultCols = 80
	defaultRows = 24
	defaultTerm = "xterm-256color"
)

// inputWait bounds how long input waits for a program that does not read. While it waits the client's
// other frames wait too.
const inputWait = 5 * time.Second

// stalledWait is the wait once a program has not read for inputWait, so that a client that goes on
// typing can still get a signal through.
const stalledWait = 10 * time.Millisecond

// shell is a started shell and our ends of its descriptors.
type shell struct {
	mode    Mode
	process *process.Process
	input   *os.File // with a terminal device, its master, which is also the only output
	outputs map[Stream]*os.File

	hasStalled atomic.Bool // the last input was not taken in time
	window     window
}

func startShell(t *Terminal, mode Mode) (*shell, error) {
	vars := t.environ.For(nil, t.spec.Env)
	if mode == PTY && vars["TERM"] == "" {
		vars["TERM"] = defaultTerm
	}
	path, isBash, err := process.FindShell(vars)
	if err != nil {
		return nil, err
	}
	argv := []string{"sh"}
	if isBash {
		argv = []string{"bash", "--norc", "--noprofile"}
	}
	if t.spec.Command != "" {
		argv = append(argv, "-c", t.spec.Command)
	}
	sh, childs, err := openShell(mode, t.spec)
	if err != nil {
		return nil, err
	}
	defer closeAll(childs...)
	sh.process, err = t.table.Start(process.Spec{
		Path: path, Argv: argv, Env: process.List(vars), Dir: t.spec.Cwd, Files: childs, Terminal: mode == PTY,
	})
	if err != nil {
		sh.close()
		return nil, err
	}
	return sh, nil
}

// openShell makes the descriptors of a shell: our ends in it, and the child's three.
func openShell(mode Mode, spec Spec) (sh *shell, childs []*os.File, err error) {
	if mode == PTY {
		master, tty, err := openTerminal(spec)
		if err != nil {
			return nil, nil, fmt.Errorf("open terminal: %w", err)
		}
		return &shell{mode: PTY, input: master, outputs: map[Stream]*os.File{Stdout: master}}, []*os.File{tty, tty, tty}, nil
	}
	stdin, input, err := process.InputPipe()
	if err != nil {
		return nil, nil, err
	}
	stdoutEnd, stdout, err := process.OutputPipe()
	if err != nil {
		closeAll(stdin, input)
		return nil, nil, err
	}
	stderrEnd, stderr, err := process.OutputPipe()
	if err != nil {
		closeAll(stdin, input, stdoutEnd, stdout)
		return nil, nil, err
	}
	sh = &shell{mode: Pipe, input: input, outputs: map[Stream]*os.File{Stdout: stdoutEnd, Stderr: stderrEnd}}
	return sh, []*os.File{stdin, stdout, stderr}, nil
}

// openTerminal opens a terminal device of the wanted size. pty.Open leaves the master blocking, and
// then neither deadlines nor Close would end a read; a second descriptor is made that does not block.
func openTerminal(spec Spec) (master, tty *os.File, err error) {
	opened, tty, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer opened.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Cols: cmp.Or(spec.Cols, defaultCols), Rows: cmp.Or(spec.Rows, defaultRows)}); err != nil {
		tty.Close()
		return nil, nil, err
	}
	fd, err := unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		tty.Close()
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), opened.Name()), tty, nil
}

func (s *shell) write(input []byte) error {
	wait := inputWait
	if s.hasStalled.Load() {
		wait = stalledWait
	}
	if err := s.input.SetWriteDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	n, err := s.input.Write(input)
	isStalled := errors.Is(err, os.ErrDeadlineExceeded)
	s.hasStalled.Store(isStalled)
	if isStalled {
		return fmt.Errorf("the program does not read its input: %d of %d bytes are lost", len(input)-n, len(input))
	}
	return err
}

// signalForeground signals the group that would get a Ctrl-C. A shell with job control gives each job
// its own group, so the shell's own is not always the one.
func (s *shell) signalForeground(sig syscall.Signal) error {
	if s.mode != PTY {
		return s.process.SignalGroup(sig)
	}
	var group int
	err := s.control(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	if err != nil || group <= 1 {
		return s.process.SignalGroup(sig)
	}
	if err := syscall.Kill(-group, sig); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return s.process.SignalGroup(sig)
}

// control does an ioctl on the master without making it blocking, as File.Fd would.
func (s *shell) control(ioctl func(fd int) error) error {
	conn, err := s.input.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	if err := conn.Control(func(fd uintptr) { failure = ioctl(int(fd)) }); err != nil {
		return err
	}
	return failure
}

func (s *shell) close() {
	s.input.Close()
	for _, file := range s.outputs {
		file.Close()
	}
}

func closeAll(files ...*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// supervise carries the output of a shell until its end, and then ends the terminal.
func (t *Terminal) supervise(sh *shell) {
	var pumps sync.WaitGroup
	for stream, file := range sh.outputs {
		pumps.Go(func() { t.pump(sh, stream, file) })
	}
	<-sh.process.Done()
	for _, file := range sh.outputs {
		_ = file.SetReadDeadline(time.Unix(1, 0)) // from now on only what is there already
	}
	pumps.Wait()
	sh.close()
	t.finish()
}
