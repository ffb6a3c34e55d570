// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"opensandbox.io/dataplane/process"
)

// pythonParent is a Python process that has imported and warmed what every context needs. Contexts
// are forked from it. The first context needs none: it starts by itself, and at once, so the parent
// starts with the second.
type pythonParent struct {
	mu       sync.Mutex // one context is forked at a time
	process  *process.Process
	control  *os.File
	made     string // the program and variables it was started with
	hasFirst bool   // a context has started by itself
}

// pythonPrograms are tried in this order; one that lacks IPython is passed over.
func pythonPrograms(env map[string]string) []string {
	var found []string
	for _, name := range []string{env["OPENSANDBOX_PYTHON"], "python3", "python", "/opt/opensandbox/python/bin/python3"} {
		if name == "" {
			continue
		}
		if path, err := process.FindProgram(name, env, "/"); err == nil && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found
}

// startPython starts the first context by itself and forks the others from the parent.
func (c *Contexts) startPython(s start) (interpreter, error) {
	if c.python.takeFirst() {
		r, err := c.startFirstPython(s)
		if err == nil {
			return r, nil
		}
		c.python.giveBackFirst()
		return nil, err
	}
	return c.forkPython(s)
}

// startFirstPython starts a context that becomes IPython when it has to.
func (c *Contexts) startFirstPython(s start) (*runner, error) {
	home, err := c.runnerDir("python")
	if err != nil {
		return nil, err
	}
	err = errNoPython
	for _, program := range pythonPrograms(s.env) {
		spec := process.Spec{
			Path: program, Argv: []string{program, home + "/first.py"}, Env: process.List(s.env), Dir: "/", EndsGroup: true,
		}
		var r *runner
		if r, err = startRunner(c.table, spec, s.cancelled); err == nil {
			r.takesSignals = true
			return r, r.settle(s)
		}
		if !errors.Is(err, ErrNoKernel) {
			return nil, err
		}
		err = noIPython(program)
	}
	return nil, err
}

// settle gives a new interpreter its directory and environment.
func (r *runner) settle(s start) error {
	err := r.send(order{Type: "start", Dir: s.dir, Env: s.env})
	if err != nil {
		r.close()
	}
	return err
}

// forkPython forks an interpreter from the parent.
func (c *Contexts) forkPython(s start) (interpreter, error) {
	w, err := newWires()
	if err != nil {
		return nil, err
	}
	if err = c.python.fork(c, s, w); err != nil {
		w.close()
		return nil, err
	}
	w.closeChilds()
	r := newRunner(w)
	r.takesSignals = true
	in := bufio.NewReader(r.conn)
	if err := r.adopt(c.table, in, s.cancelled); err != nil {
		closeFiles(w.ours[:2])
		for _, o := range r.outputs {
			o.close()
		}
		return nil, err
	}
	if err := r.settle(s); err != nil {
		return nil, err
	}
	go r.listen(in)
	return r, nil
}

// adopt learns the number of the forked process, which waits until it is told to start.
func (r *runner) adopt(table *process.Table, in *bufio.Reader, cancelled <-chan struct{}) error {
	_ = r.conn.SetReadDeadline(time.Now().Add(startLimit))
	defer r.conn.SetReadDeadline(time.Time{})
	line, _, err := readLine(in, 4096)
	var ready message
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err == nil && ready.PID <= 0 {
		err = errors.New("it did not say which process it is")
	}
	if err != nil {
		return fmt.Errorf("the interpreter did not start: %w", err)
	}
	r.process = table.Adopt(ready.PID)
	select {
	case <-cancelled:
		r.kill()
	default:
	}
	return nil
}

// takeFirst says whether the caller starts the first context.
func (p *pythonParent) takeFirst() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	isFirst := !p.hasFirst
	p.hasFirst = true
	return isFirst
}

func (p *pythonParent) giveBackFirst() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hasFirst = false
}

// fork lets the parent fork once; the new process gets the child's ends of w.
func (p *pythonParent) fork(c *Contexts, s start, w *wires) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for attempt := 0; ; attempt++ {
		if err := p.ensure(c, s); err != nil {
			return err
		}
		err := p.request(w)
		if err == nil || errors.Is(err, errNoProcess) {
			return err
		}
		p.end() // it was killed: a new one is as good
		if attempt > 0 {
			return fmt.Errorf("fork a Python context: %w", err)
		}
	}
}

// forkLimit bounds how long a warm parent takes to fork. One that was stopped never does.
const forkLimit = 10 * time.Second

var (
	errNoProcess = errors.New("no process could be made; perhaps the sandbox has reached its limit of processes")
	errNoPython  = fmt.Errorf("%w: Python is not in this image; use an image that has python3 with IPython", ErrNoKernel)
)

func noIPython(program string) error {
	return fmt.Errorf("%w: %s has no IPython; install it with: %s -m pip install ipython", ErrNoKernel, program, program)
}

func (p *pythonParent) request(w *wires) error {
	fds := make([]int, len(w.childs))
	for i, file := range w.childs {
		fds[i] = int(file.Fd())
	}
	conn, err := p.control.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = conn.Write(func(fd uintptr) bool {
		sendErr = unix.Sendmsg(int(fd), []byte{'f'}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return sendErr != unix.EAGAIN
	})
	if err == nil {
		err = sendErr
	}
	if err == nil {
		var answer [1]byte
		_ = p.control.SetReadDeadline(time.Now().Add(forkLimit))
		_, err = io.ReadFull(p.control, answer[:])
		if err == nil && answer[0] != 'o' {
			err = errNoProcess
		}
	}
	return err
}

// ensure makes sure that a parent lives that fits s.
func (p *pythonParent) ensure(c *Contexts, s start) error {
	programs := pythonPrograms(s.env)
	wanted := strings.Join(programs, "\x00")
	for _, variable := range process.List(s.env) {
		if strings.HasPrefix(variable, "PYTHON") || strings.HasPrefix(variable, "LD_") || strings.HasPrefix(variable, "OPENSANDBOX_PYTHON") {
			wanted += "\x00" + variable
		}
	}
	if p.isAlive() && p.made == wanted {
		return nil
	}
	p.end()
	if len(programs) == 0 {
		return errNoPython
	}
	home, err := c.runnerDir("python")
	if err != nil {
		return err
	}
	for _, program := range programs {
		if err = p.begin(c.table, program, home, s); !errors.Is(err, ErrNoKernel) {
			break
		}
	}
	p.made = wanted
	return err
}

// begin starts a parent and waits until it is warm.
func (p *pythonParent) begin(table *process.Table, program, home string, s start) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	_ = unix.SetNonblock(pair[0], true)
	ours, childs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	said, childSaid, err := process.OutputPipe()
	if err != nil {
		closeFiles([]*os.File{ours, childs})
		return err
	}
	defer said.Close()
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer nothing.Close()
		p.process, err = table.Start(process.Spec{
			Path: program, Argv: []string{program, home}, Env: process.List(s.env), Dir: "/",
			Files: []*os.File{nothing, nothing, childSaid, childs},
		})
	}
	closeFiles([]*os.File{childs, childSaid}) // so that its end is seen as the end of both
	if err != nil {
		ours.Close()
		return err
	}
	p.control = ours
	return p.awaitWarm(program, said)
}

// awaitWarm waits for the parent's word that it is ready.
func (p *pythonParent) awaitWarm(program string, said *os.File) error {
	var answer [1]byte
	_ = p.control.SetReadDeadline(time.Now().Add(startLimit))
	_, err := io.ReadFull(p.control, answer[:])
	if err == nil && answer[0] == 'r' {
		return nil
	}
	_ = p.process.SignalGroup(syscall.SIGKILL) // most have ended by themselves
	exit := p.process.Exit()
	words, _ := io.ReadAll(io.LimitReader(said, 8<<10))
	p.end()
	if err == nil && answer[0] == 'm' {
		return noIPython(program)
	}
	return fmt.Errorf("%s did not start (%s): %s", program, exit, strings.TrimSpace(string(words)))
}

func (p *pythonParent) isAlive() bool {
	if p.process == nil {
		return false
	}
	select {
	case <-p.process.Done():
		return false
	default:
		return true
	}
}

// end ends the parent; contexts forked from it live on.
func (p *pythonParent) end() {
	if p.process == nil {
		return
	}
	_ = p.process.SignalGroup(syscall.SIGKILL) // it may have ended by itself
	<-p.process.Done()
	_ = p.control.Close()
	p.process = nil
}

func (p *pythonParent) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}
