// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

var program string // built once

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ingress")
	if err != nil {
		panic(err)
	}
	_ = os.Chmod(dir, 0o755) // another user runs it too
	program = filepath.Join(dir, "ingress")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		os.RemoveAll(dir)
		os.Exit(status)
	}))
}

// child is the program, started as a server starts it.
type child struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	control *net.UnixConn
	acks    *bufio.Reader
	errors  lockedBuffer
	dir     string
}

// lockedBuffer can be read while the program writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, api http.HandlerFunc, flags ...string) *child {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingress")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	_ = os.Chmod(dir, 0o755)
	socket := filepath.Join(dir, "api.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(socket, 0o666)
	server := &http.Server{Handler: api}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Close(); <-served })

	public, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer public.Close()
	publicFile, _ := public.(*net.TCPListener).File()
	defer publicFile.Close()
	ours, theirs := pair(t)
	defer theirs.Close()
	c := &child{t: t, address: public.Addr().String(), control: ours, acks: bufio.NewReader(ours), dir: dir}
	c.cmd = exec.Command(program, append([]string{"--listen", "fd://3", "--control-fd", "4", "--api", "unix://" + socket}, flags...)...)
	place, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	c.cmd.ExtraFiles = []*os.File{publicFile, theirs, place}
	c.cmd.Stderr = &c.errors
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait(); ours.Close() })
	return c
}

func pair(t *testing.T) (*net.UnixConn, *os.File) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*net.UnixConn), os.NewFile(uintptr(fds[1]), "theirs")
}

func (c *child) configure() {
	c.t.Helper()
	for seq, rest := range []string{`"op":"config","domain":"localhost"`, `"op":"replace","routes":[]`} {
		fmt.Fprintf(c.control, "{\"seq\":%d,%s}\n", seq, rest)
		if line, err := c.acks.ReadString('\n'); err != nil || line != fmt.Sprintf("{\"ack\":%d}\n", seq) {
			c.t.Fatalf("%q %v: %s", line, err, c.errors.String())
		}
	}
}

func (c *child) get(path string) (string, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + c.address + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// end waits for the program and returns its status.
func (c *child) end() int {
	c.t.Helper()
	hung := time.AfterFunc(20*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer hung.Stop()
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func hello(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }

func TestClientsWaitUntilThereIsAConfiguration(t *testing.T) {
	c := start(t, hello)
	answer := make(chan string, 1)
	go func() {
		body, err := c.get("/health")
		answer <- fmt.Sprint(body, err)
	}()
	select {
	case early := <-answer:
		t.Fatalf("answered %q before it was configured", early)
	case <-time.After(100 * time.Millisecond):
	}
	c.configure()
	if got := <-answer; got != "hello<nil>" {
		t.Errorf("got %q", got)
	}
}

func TestOpenRequestsEndBeforeTheProgramDoes(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	c := start(t, func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		io.WriteString(w, "whole")
	})
	c.configure()
	answer := make(chan string, 1)
	go func() {
		body, err := c.get("/slow")
		answer <- fmt.Sprint(body, err)
	}()
	<-began
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for { // it stops listening first
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			break
		}
		conn.Close()
		time.Sleep(5 * time.Millisecond)
	}
	close(finish)
	if got := <-answer; got != "whole<nil>" {
		t.Errorf("got %q", got)
	}
	if status := c.end(); status != 0 {
		t.Errorf("status %d: %s", status, c.errors.String())
	}
}

func TestRequestsThatDoNotEndAreCut(t *testing.T) {
	began := make(chan struct{})
	c := start(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	}, "--drain-timeout", "50ms")
	c.configure()
	failed := make(chan error, 1)
	go func() {
		_, err := c.get("/slow")
		failed <- err
	}()
	<-began
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	if <-failed == nil {
		t.Error("the request was answered")
	}
	if status := c.end(); status != 0 {
		t.Errorf("status %d: %s", status, c.errors.String())
	}
}

func TestTheProgramEndsWithItsServer(t *testing.T) {
	for _, isConfigured := range []bool{true, false} {
		c := start(t, hello)
		if isConfigured {
			c.configure()
		}
		c.control.Close()
		if status := c.end(); status != 0 {
			t.Errorf("status %d: %s", status, c.errors.String())
		}
	}
}

func TestRootIsDroppedForGood(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can drop root")
	}
	// The API is reached through a descriptor, as it is where its directory is closed to others.
	c := start(t, hello, "--drop", "65534:65533", "--api", "unix:///proc/self/fd/5/api.sock")
	c.configure()
	if body, err := c.get("/"); body != "hello" || err != nil {
		t.Errorf("%q %v", body, err)
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(c.cmd.Process.Pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534\n", "Gid:\t65533\t65533\t65533\t65533\n", "Groups:\t \n", "CapEff:\t0000000000000000\n", "CapPrm:\t0000000000000000\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("%q is not in\n%s", want, status)
		}
	}
}

func TestAStartThatCannotBeIsOneClearError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for says, flags := range map[string][]string{
		"address already in use":          {"--listen", "tcp://" + taken.Addr().String()},
		"unknown scheme":                  {"--listen", "http://x"},
		"write it as tcp://HOST:PORT":     {"--listen", "8080"},
		"not the number of an inherited":  {"--listen", "fd://0"},
		"is neither a path nor host:port": {"--api", "nonsense"},
		"descriptor 77 is not a socket":   {"--control-fd", "77"},
		"-drop: 0 is root, which is what": {"--drop", "0:0"},
	} {
		c := start(t, hello, flags...)
		status := c.end()
		if text := c.errors.String(); status == 0 || !strings.Contains(text, says) || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: status %d: %s", flags, status, text)
		}
	}
}

func TestAProgramWithoutDescriptorsAcceptsAgainWhenItHasSome(t *testing.T) {
	c := start(t, hello)
	c.configure()
	if body, err := c.get("/"); body != "hello" || err != nil {
		t.Fatalf("%q %v", body, err)
	}
	open, err := os.ReadDir("/proc/" + strconv.Itoa(c.cmd.Process.Pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: uint64(len(open)) + 8, Max: uint64(len(open)) + 8}
	if err := unix.Prlimit(c.cmd.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	var held []net.Conn
	for range 20 {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	for !strings.Contains(c.errors.String(), "too many open files") {
		time.Sleep(5 * time.Millisecond)
	}
	for _, conn := range held {
		conn.Close()
	}
	if body, err := c.get("/"); body != "hello" || err != nil {
		t.Errorf("%q %v: %s", body, err, c.errors.String())
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ours, theirs := pair(t)
	defer ours.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	fd, _ := syscall.Dup(int(theirs.Fd()))
	theirs.Close()
	go func() {
		ended <- run(ctx, config{listen: []string{"tcp://127.0.0.1:0"}, api: "/nowhere", controlFD: fd, drainTimeout: time.Second})
	}()
	io.WriteString(ours, `{"seq":7,"op":"config"}`+"\n")
	if line, err := bufio.NewReader(ours).ReadString('\n'); err != nil || line != "{\"ack\":7}\n" {
		t.Errorf("%q %v", line, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
