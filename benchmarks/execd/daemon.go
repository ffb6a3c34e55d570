// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A daemon is a program that was given a listening unix socket as its descriptor 3.
type daemon struct {
	cmd    *exec.Cmd
	dir    string
	socket string
	client *http.Client
	log    bytes.Buffer
}

// startExecd starts the daemon with a directory of its own for state, and waits for nothing: a
// request made at once waits in the queue of the socket.
func startExecd(set settings) (*daemon, error) {
	dir, err := os.MkdirTemp(set.scratch, "execd-")
	if err != nil {
		return nil, err
	}
	return startListening(dir, set.execd, "--listen", "fd://3", "--state-dir", filepath.Join(dir, "state"))
}

// startIdleServer starts this program as a Go HTTP server that has no features.
func startIdleServer(set settings) (*daemon, error) {
	dir, err := os.MkdirTemp(set.scratch, "idle-")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startListening(dir, self, "-idle-server")
}

func startListening(dir, program string, args ...string) (*daemon, error) {
	d := &daemon{dir: dir, socket: filepath.Join(dir, "s")}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: d.socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	file, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	defer listener.Close()

	d.cmd = exec.Command(program, args...)
	d.cmd.Dir = dir
	d.cmd.ExtraFiles = []*os.File{file}
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	d.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", d.socket)
		},
		DisableCompression: true,
	}}
	return d, nil
}

// stop ends the daemon politely and waits for it.
func (d *daemon) stop() error {
	d.client.CloseIdleConnections()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	patience := time.AfterFunc(10*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer patience.Stop()
	_ = d.cmd.Wait() // its status says how it was asked to end
	return os.RemoveAll(d.dir)
}

// ping asks once and fails on any answer but 200.
func (d *daemon) ping() error {
	response, err := d.client.Get("http://execd/ping")
	if err != nil {
		return fmt.Errorf("ping: %w; the daemon said: %s", err, d.log.String())
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ping: %s", response.Status)
	}
	return nil
}

// residentMiB is the memory the daemon occupies now.
func (d *daemon) residentMiB() (float64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(d.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(status, []byte("VmRSS:"))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0, fmt.Errorf("no VmRSS for pid %d", d.cmd.Process.Pid)
	}
	kib, err := strconv.ParseFloat(string(fields[0]), 64)
	return kib / 1024, err
}

// serveIdle is the other side of startIdleServer.
func serveIdle() error {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
}

// measureDaemon takes the time from start to first answer, and the memory of a daemon that has
// answered once. The alternatives: spawning `true`, and the bare Go server.
func measureDaemon(set settings) ([]result, error) {
	start := result{Name: "execd_start", Unit: "ms"}
	memory := result{Name: "execd_idle_rss", Unit: "MiB"}
	truePath, err := exec.LookPath("true")
	if err != nil {
		return nil, err
	}
	sampleStart := func() (float64, error) {
		began := time.Now()
		d, err := startExecd(set)
		if err != nil {
			return 0, err
		}
		if err := d.ping(); err != nil {
			return 0, err
		}
		return milliseconds(began), d.stop()
	}
	start.Ours, start.Other, err = alternate(set.starts, sampleStart, func() (float64, error) { return spawn(truePath) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", start.Name, err)
	}
	memory.Ours, memory.Other, err = alternate(max(2, set.starts/10),
		func() (float64, error) { return sampleMemory(set, startExecd) },
		func() (float64, error) { return sampleMemory(set, startIdleServer) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", memory.Name, err)
	}
	return []result{start, memory}, nil
}

func sampleMemory(set settings, start func(settings) (*daemon, error)) (float64, error) {
	d, err := start(set)
	if err != nil {
		return 0, err
	}
	if err := d.ping(); err != nil {
		return 0, err
	}
	resident, err := d.residentMiB()
	if err != nil {
		return 0, err
	}
	return resident, d.stop()
}
