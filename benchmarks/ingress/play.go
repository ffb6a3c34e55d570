// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	sandboxID = "0b9d2c1e-7f4a-4c55-9d3e-1a2b3c4d5e6f"
	token     = "kq0XfD3nUe4bT8yW1zLr5cVgHsJmPaQo"
)

// play is what this program does when the harness starts it for a role.
func play(role, socket string) error {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	if role == "backend" {
		return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"ok"}`)
		}))
	}
	place, _ := url.Parse("http://backend")
	proxy := httputil.NewSingleHostReverseProxy(place)
	proxy.Transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 128,
		DisableCompression:  true,
	}
	return http.Serve(listener, proxy)
}

// trial is both sides and what they lead to.
type trial struct {
	ours, other *side
	processes   []*exec.Cmd
	control     net.Conn
}

func startAll(set settings, dir string) (t *trial, err error) {
	t = new(trial)
	defer func() {
		if err != nil {
			_ = t.stop()
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "backend.sock")
	backend, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	backend.SetUnlinkOnClose(false)
	if err := t.start(backend, nil, self, "-role", "backend"); err != nil {
		return nil, err
	}
	if t.other, err = t.startOther(self, socket); err != nil {
		return nil, err
	}
	t.ours, err = t.startOurs(set.ingress, socket)
	return t, err
}

func (t *trial) startOther(self, socket string) (*side, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &side{name: "reverse proxy", address: listener.Addr().String(), path: "/ping"}
	return s, t.start(listener.(*net.TCPListener), nil, self, "-role", "proxy", "-socket", socket)
}

// startOurs starts ingress as the server does, with the backend in the place of execd.
func (t *trial) startOurs(program, socket string) (*side, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	if t.control, err = net.FileConn(ours); err != nil {
		return nil, err
	}
	s := &side{name: "ingress", address: listener.Addr().String(), path: "/v1/sandboxes/" + sandboxID + "/proxy/44772/ping"}
	if err := t.start(listener.(*net.TCPListener), theirs, program,
		"--listen", "fd://3", "--control-fd", "4", "--api", "unix:///nowhere"); err != nil {
		return nil, err
	}
	return s, t.configure(socket)
}

func (t *trial) configure(socket string) error {
	key := sha256.Sum256([]byte("an API key"))
	route := map[string]string{"id": sandboxID, "socket": socket, "state": "running", "execdToken": token}
	acks := bufio.NewScanner(t.control)
	for _, message := range []map[string]any{
		{"seq": 1, "op": "put", "route": route},
		{"seq": 2, "op": "config", "domain": "localhost", "apiKeyHashes": []string{hex.EncodeToString(key[:])}},
	} {
		line, err := json.Marshal(message)
		if err != nil {
			return err
		}
		if _, err := t.control.Write(append(line, '\n')); err != nil {
			return err
		}
		if !acks.Scan() || acks.Text() != fmt.Sprintf(`{"ack":%d}`, message["seq"]) {
			return fmt.Errorf("ingress answered %q to %s", acks.Text(), line)
		}
	}
	go func() { // reports of activity
		for acks.Scan() {
			continue
		}
	}()
	return nil
}

// start gives the listener to a program as its descriptor 3 and extra, if any, as 4.
func (t *trial) start(listener interface {
	File() (*os.File, error)
	Close() error
}, extra *os.File, program string, args ...string) error {
	file, err := listener.File()
	if err != nil {
		return err
	}
	defer file.Close()
	defer listener.Close()
	cmd := exec.Command(program, args...)
	cmd.ExtraFiles = []*os.File{file}
	if extra != nil {
		defer extra.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, extra)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	t.processes = append(t.processes, cmd)
	return nil
}

// stop ends every process and waits for it.
func (t *trial) stop() error {
	if t.control != nil {
		_ = t.control.Close()
	}
	for _, cmd := range t.processes {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			log.Print(err)
		}
		patience := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // its status says how it was asked to end
		patience.Stop()
	}
	return nil
}
