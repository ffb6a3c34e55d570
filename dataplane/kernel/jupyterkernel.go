// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/process"
)

// jupyterKernel is a kernel of the image, driven over Jupyter's own protocol.
type jupyterKernel struct {
	reporter
	process     *process.Process
	takesSignal bool
	isEarly     bool // says that it is idle before it has sent the result
	signer      jupyterSigner
	file        string // of the connection
	shell       *zmtp
	control     *zmtp
	published   *zmtp
	replies     chan jupyterMessage // on shell
	broadcasts  chan jupyterMessage // on published
	lost        chan struct{}       // closed when a connection is gone
	losing      sync.Once
	closed      chan struct{}
	closing     sync.Once
	readers     sync.WaitGroup

	interrupting sync.Mutex // guards all below
	isRunning    bool       // a cell has begun
	began        time.Time  // when it did
	isAsked      bool       // somebody wants it to end
	early        *time.Timer
}

// retryPause is between two tries to reach a kernel that has not bound its ports yet.
const retryPause = 20 * time.Millisecond

// lateResult is how long a result is waited for of a kernel that is idle too early.
const lateResult = 50 * time.Millisecond

// startJupyter starts a kernel and waits until it answers and its broadcasts arrive.
func (c *Contexts) startJupyter(spec kernelspec, s start) (interpreter, error) {
	k := &jupyterKernel{
		takesSignal: spec.InterruptMode != "message",
		isEarly:     filepath.Base(spec.Argv[0]) == "deno",
		signer:      jupyterSigner{key: []byte(command.NewID()), session: command.NewID()},
		file:        filepath.Join(c.dir, "kernel-"+command.NewID()+".json"),
		replies:     make(chan jupyterMessage), broadcasts: make(chan jupyterMessage),
		lost: make(chan struct{}), closed: make(chan struct{}),
	}
	ports, err := k.writeConnection()
	if err != nil {
		return nil, err
	}
	argv := spec.command(k.file)
	env := maps.Clone(s.env)
	maps.Copy(env, spec.Env)
	path, err := process.FindProgram(argv[0], env, s.dir)
	if err != nil {
		_ = os.Remove(k.file)
		return nil, fmt.Errorf("%w: the kernel %s is installed but %v", ErrNoKernel, spec.name, err)
	}
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer nothing.Close()
		k.process, err = c.table.Start(process.Spec{
			Path: path, Argv: argv, Env: process.List(env), Dir: s.dir, Files: []*os.File{nothing, nothing, nothing}, EndsGroup: true,
		})
	}
	if err != nil {
		_ = os.Remove(k.file)
		return nil, err
	}
	if err := k.connect(ports, s.cancelled); err != nil {
		k.close()
		return nil, fmt.Errorf("the kernel %s did not start: %w", spec.name, err)
	}
	return k, nil
}

// writeConnection chooses ports and tells the kernel in a file. Shell, control and iopub come first.
func (k *jupyterKernel) writeConnection() ([]int, error) {
	var ports []int
	for range 5 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	text, err := json.Marshal(map[string]any{
		"transport": "tcp", "ip": "127.0.0.1", "signature_scheme": "hmac-sha256", "key": string(k.signer.key),
		"shell_port": ports[0], "control_port": ports[1], "iopub_port": ports[2], "stdin_port": ports[3], "hb_port": ports[4],
	})
	if err != nil {
		return nil, err
	}
	return ports, os.WriteFile(k.file, text, 0o600)
}

func (k *jupyterKernel) connect(ports []int, cancelled <-chan struct{}) error {
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	for i, socket := range []**zmtp{&k.shell, &k.control, &k.published} {
		kind := []string{"DEALER", "DEALER", "SUB"}[i]
		for {
			made, err := dialZMTP("127.0.0.1:"+strconv.Itoa(ports[i]), kind)
			if err == nil {
				*socket = made
				break
			}
			select {
			case <-k.process.Done():
				return fmt.Errorf("it ended: %s", k.process.Exit())
			case <-cancelled:
				return errCancelled
			case <-limit.C:
				return err
			case <-time.After(retryPause):
			}
		}
	}
	k.readers.Go(func() { k.read(k.shell, k.replies) })
	k.readers.Go(func() { k.read(k.published, k.broadcasts) })
	return k.awaitBroadcast(cancelled, limit.C)
}

// awaitBroadcast asks until a broadcast comes: what a kernel publishes before it knows of a
// subscriber is lost.
func (k *jupyterKernel) awaitBroadcast(cancelled <-chan struct{}, limit <-chan time.Time) error {
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	isAnswered, isHeard := false, false
	if _, err := k.ask(k.shell, "kernel_info_request", struct{}{}); err != nil {
		return err
	}
	for !isAnswered || !isHeard {
		select {
		case <-k.replies:
			isAnswered = true
		case <-k.broadcasts:
			isHeard = true
		case <-again.C:
			if _, err := k.ask(k.shell, "kernel_info_request", struct{}{}); err != nil {
				return err
			}
		case <-k.process.Done():
			return fmt.Errorf("it ended: %s", k.process.Exit())
		case <-cancelled:
			return errCancelled
		case <-limit:
			return fmt.Errorf("no answer within %s", startLimit)
		}
	}
	return nil
}

// read passes on what comes on one connection until it is gone.
func (k *jupyterKernel) read(from *zmtp, to chan<- jupyterMessage) {
	for {
		frames, err := from.receive()
		if err != nil {
			k.losing.Do(func() { close(k.lost) })
			return
		}
		said, err := k.signer.read(frames)
		if err != nil {
			continue // not from our kernel
		}
		select {
		case to <- said:
		case <-k.closed:
			return
		}
	}
}

func (k *jupyterKernel) ask(on *zmtp, kind string, content any) (string, error) {
	frames, id, err := k.signer.request(kind, content)
	if err == nil {
		err = on.send(frames...)
	}
	return id, err
}

const (
	// interruptLimit bounds how long a kernel takes to hear of an interrupt.
	interruptLimit = time.Second
	// beginning is how long a kernel is left alone that says that a cell begins: until the code itself
	// runs, an interrupt is lost on it, or hits its own code.
	beginning = 300 * time.Millisecond
)

// interrupt asks the cell to end, as soon as it has begun.
func (k *jupyterKernel) interrupt() error {
	k.interrupting.Lock()
	defer k.interrupting.Unlock()
	k.isAsked = true
	if !k.isRunning || time.Since(k.began) < beginning {
		return nil
	}
	return k.passInterrupt()
}

// isInterrupted says whether somebody wants the cell to end.
func (k *jupyterKernel) isInterrupted() bool {
	k.interrupting.Lock()
	defer k.interrupting.Unlock()
	return k.isAsked
}

// setRunning says that a cell has begun or is over. An interrupt that came too early is passed on.
func (k *jupyterKernel) setRunning(isRunning bool) {
	k.interrupting.Lock()
	defer k.interrupting.Unlock()
	k.isRunning, k.began = isRunning, time.Now()
	if isRunning {
		k.early = time.AfterFunc(beginning, k.passEarlyInterrupt)
		return
	}
	if k.early != nil {
		k.early.Stop()
	}
}

func (k *jupyterKernel) conclude() {
	k.interrupting.Lock()
	defer k.interrupting.Unlock()
	k.isAsked = false
}

func (k *jupyterKernel) passEarlyInterrupt() {
	k.interrupting.Lock()
	defer k.interrupting.Unlock()
	if k.isRunning && k.isAsked {
		_ = k.passInterrupt() // when it fails the cell fails, too
	}
}

func (k *jupyterKernel) passInterrupt() error {
	if k.takesSignal {
		return k.process.SignalGroup(syscall.SIGINT)
	}
	k.control.limitSend(interruptLimit)
	_, err := k.ask(k.control, "interrupt_request", struct{}{})
	return err
}

func (k *jupyterKernel) kill() { _ = k.process.SignalGroup(syscall.SIGKILL) } // it may have ended in this moment

func (k *jupyterKernel) pid() int { return k.process.PID() }

func (k *jupyterKernel) hasEnded() bool {
	select {
	case <-k.process.Done():
		return true
	case <-k.lost:
		return true
	default:
		return false
	}
}

func (k *jupyterKernel) close() {
	k.closing.Do(func() {
		close(k.closed)
		k.kill()
		<-k.process.Done()
		for _, connection := range []*zmtp{k.shell, k.control, k.published} {
			if connection != nil {
				connection.close()
			}
		}
		k.readers.Wait()
		_ = os.Remove(k.file)
	})
}

// died is the failure of a cell with which its kernel ended.
func (k *jupyterKernel) died() *event.Error {
	select {
	case <-k.process.Done():
	case <-time.After(exitGrace):
		k.kill()
	}
	reason := fmt.Sprintf("the kernel ended (%s); its state is lost and the next run starts a new one", k.process.Exit())
	return &event.Error{Name: "InterpreterDied", Value: reason}
}
