// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/process"
)

// A runner speaks JSON on these descriptors, one object on a line. What the code prints comes through
// the runner's standard output and error. After a result the runner waits for a byte on acksFD, so
// that what is printed before and after a figure comes before and after it.
const (
	connFD = 3
	acksFD = 4
)

// missingStatus is how a runner exits that lacks something; it has said what on standard error.
const missingStatus = 3

// runner is a process that runs code of one language in one context.
type runner struct {
	reporter
	process *process.Process
	conn    *os.File
	acks    *os.File
	outputs []*output
	dones   chan message  // the end of each cell
	forgot  chan struct{} // holds the answer to "forget"
	lost    chan struct{} // closed when it says nothing more
	broken  error         // set before lost is closed when somebody else spoke in its place

	takesSignals bool // SIGINT interrupts the cell and not the interpreter

	interrupting sync.Mutex // guards all below
	isGiven      bool       // the runner has all of the cell that goes on
	isAsked      bool       // somebody wants that cell to end
	isLate       bool       // a signal for the cell before may not have come yet

	closing sync.Once
}

// wires are both ends of what connects a runner with us.
type wires struct {
	ours   [4]*os.File // connection, acks, stdout, stderr
	childs [4]*os.File
}

func newWires() (*wires, error) {
	w := &wires{}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	err = unix.SetNonblock(pair[0], true)
	w.ours[0], w.childs[0] = os.NewFile(uintptr(pair[0]), "runner"), os.NewFile(uintptr(pair[1]), "runner")
	if err == nil {
		w.childs[1], w.ours[1], err = process.InputPipe()
	}
	for i := 2; i < 4 && err == nil; i++ {
		w.ours[i], w.childs[i], err = process.OutputPipe()
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *wires) closeChilds() { closeFiles(w.childs[:]) }

func (w *wires) close() {
	closeFiles(w.ours[:])
	closeFiles(w.childs[:])
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		if file != nil {
			_ = file.Close()
		}
	}
}

// startRunner starts a program that is a runner and waits until it is ready or cancelled is closed.
func startRunner(table *process.Table, spec process.Spec, cancelled <-chan struct{}) (*runner, error) {
	w, err := newWires()
	if err != nil {
		return nil, err
	}
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		w.close()
		return nil, err
	}
	spec.Files = []*os.File{0: nothing, 1: w.childs[2], 2: w.childs[3], connFD: w.childs[0], acksFD: w.childs[1]}
	started, err := table.Start(spec)
	_ = nothing.Close()
	w.closeChilds()
	if err != nil {
		w.close()
		return nil, err
	}
	r := newRunner(w)
	r.process = started
	if err := r.awaitReady(cancelled); err != nil {
		r.close()
		return nil, err
	}
	go r.listen(bufio.NewReader(r.conn))
	return r, nil
}

func newRunner(w *wires) *runner {
	r := &runner{conn: w.ours[0], acks: w.ours[1], dones: make(chan message), forgot: make(chan struct{}, 1), lost: make(chan struct{})}
	r.outputs = []*output{
		newOutput(event.Stdout, w.ours[2], r.report),
		newOutput(event.Stderr, w.ours[3], r.report),
	}
	return r
}

// startLimit bounds how long an interpreter takes to begin; some are built first.
const startLimit = 3 * time.Minute

// awaitReady reads the first line byte by byte, so that what follows stays for the listener.
func (r *runner) awaitReady(cancelled <-chan struct{}) error {
	_ = r.conn.SetReadDeadline(time.Now().Add(startLimit))
	defer r.conn.SetReadDeadline(time.Time{})
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case <-cancelled:
			_ = r.conn.SetReadDeadline(time.Unix(1, 0))
		case <-started:
		}
	}()
	var first [1]byte
	var line []byte
	for len(line) < 4096 {
		if _, err := r.conn.Read(first[:]); err != nil {
			return r.startError(err)
		}
		if first[0] == '\n' {
			break
		}
		line = append(line, first[0])
	}
	var ready message
	if err := json.Unmarshal(line, &ready); err != nil || ready.Type != "ready" {
		return fmt.Errorf("the interpreter began with %q", line)
	}
	return nil
}

// startError says why an interpreter is not ready, in its own words when it has left some.
func (r *runner) startError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		select {
		case <-r.process.Done():
			err = errors.New(r.process.Exit().String())
			if r.process.Exit().Code == missingStatus {
				err = ErrNoKernel
			}
		case <-time.After(exitGrace): // it closed the connection and lives on
		}
	}
	for _, o := range r.outputs {
		o.sync()
	}
	said := ""
	for _, e := range r.kept {
		said += string(e.Text)
	}
	if !errors.Is(err, ErrNoKernel) {
		err = fmt.Errorf("the interpreter did not start: %w", err)
	}
	return fmt.Errorf("%w: %s", err, strings.TrimSpace(said))
}

// listen takes what the runner says until it has gone.
func (r *runner) listen(in *bufio.Reader) {
	defer close(r.lost)
	for {
		line, isWhole, err := readLine(in, maxMessage)
		if err != nil {
			return
		}
		said := withoutContent(line)
		if isWhole {
			said = message{}
			if r.broken = json.Unmarshal(line, &said); r.broken != nil {
				return // not our runner's words: whoever writes there has broken it
			}
		}
		for _, o := range r.outputs {
			o.sync()
		}
		switch said.Type {
		case "result":
			r.show(Result{Data: said.Data, Count: said.Count, DisplayID: said.DisplayID, IsUpdate: said.IsUpdate})
			_, err = r.acks.Write([]byte{'\n'})
		case "forgotten":
			select {
			case r.forgot <- struct{}{}:
			default: // nobody waited so long
			}
		case "done":
			select {
			case r.dones <- said:
			case <-r.process.Done():
			}
		}
		if err != nil {
			return
		}
	}
}

// send gives the runner an order; it waits while the runner takes nothing.
func (r *runner) send(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = r.conn.Write(append(line, '\n'))
	return err
}

// interrupt waits for nothing: a cell that the runner does not have yet is interrupted when it has.
func (r *runner) interrupt() error {
	r.interrupting.Lock()
	defer r.interrupting.Unlock()
	isFirst := !r.isAsked
	r.isAsked = true
	if r.isGiven && (isFirst || r.takesSignals) {
		return r.passInterrupt()
	}
	return nil
}

// passInterrupt sends a signal, as from a keyboard, or an order where a signal would end the
// interpreter.
func (r *runner) passInterrupt() error {
	if r.takesSignals {
		return r.process.SignalGroup(syscall.SIGINT)
	}
	return r.send(order{Type: "interrupt"})
}

// give sends a cell, and the interrupt that came meanwhile.
func (r *runner) give(o order) error {
	if err := r.send(o); err != nil {
		return err
	}
	r.interrupting.Lock()
	defer r.interrupting.Unlock()
	r.isGiven = true
	if r.isAsked {
		return r.passInterrupt()
	}
	return nil
}

func (r *runner) conclude() {
	r.interrupting.Lock()
	defer r.interrupting.Unlock()
	r.isLate = r.takesSignals && r.isAsked
	r.isGiven, r.isAsked = false, false
}

// forgetLimit bounds how long a runner takes to forget an interrupt; code in the background may keep
// it from that, and the next cell must be there to be interrupted.
const forgetLimit = time.Second

// forget makes sure that an interrupt of the last cell does not end the next one. A signal comes when
// the process runs, which may be after the end of the cell that it was meant for.
func (r *runner) forget() error {
	r.interrupting.Lock()
	isLate := r.isLate
	r.isLate = false
	r.interrupting.Unlock()
	if !isLate {
		return nil
	}
	select {
	case <-r.forgot: // of an earlier time
	default:
	}
	if err := r.send(order{Type: "forget"}); err != nil {
		return err
	}
	select {
	case <-r.forgot:
	case <-time.After(forgetLimit):
	case <-r.process.Done():
	case <-r.lost:
	}
	return nil
}

func (r *runner) pid() int { return r.process.PID() }

func (r *runner) hasEnded() bool {
	select {
	case <-r.process.Done():
		return true
	case <-r.lost:
		return true
	default:
		return false
	}
}

// close ends the process with everything in its group.
func (r *runner) close() {
	r.closing.Do(func() {
		_ = r.process.SignalGroup(syscall.SIGKILL) // it may have ended by itself
		<-r.process.Done()
		_ = r.conn.Close()
		_ = r.acks.Close()
		for _, o := range r.outputs {
			o.close()
		}
	})
}

// run gives the runner one cell and waits for its end.
func (r *runner) run(run *Run, request Request) *event.Error {
	r.begin(run)
	defer r.end()
	if r.forget() != nil || r.give(order{Type: "run", Code: request.Code, Env: request.Env}) != nil {
		return r.died()
	}
	select {
	case said := <-r.dones:
		return said.Error
	case <-r.process.Done():
	case <-r.lost:
	}
	return r.died()
}

// exitGrace is how long a runner that closed its connection has to exit with a status.
const exitGrace = time.Second

// died is the failure of a cell with which its interpreter ended.
func (r *runner) died() *event.Error {
	how := "the interpreter ended (%s)"
	select {
	case <-r.process.Done():
	case <-time.After(exitGrace): // it closed the connection and lives on
		how = "the interpreter lost its connection, so it was ended (%s)"
		if r.hasForeignWords() {
			how = "the code wrote on the interpreter's connection, so it was ended (%s)"
		}
		r.kill()
	}
	exit := r.process.Exit()
	for _, o := range r.outputs {
		o.sync()
	}
	return &event.Error{Name: "InterpreterDied", Value: fmt.Sprintf(how+"; its state is lost and the next run starts a new one", exit)}
}

// hasForeignWords says that something else than the runner has spoken on its connection.
func (r *runner) hasForeignWords() bool {
	select {
	case <-r.lost:
		return r.broken != nil
	default:
		return false
	}
}

func (r *runner) kill() { _ = r.process.SignalGroup(syscall.SIGKILL) } // it may have ended in this moment
