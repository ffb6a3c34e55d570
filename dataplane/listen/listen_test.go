// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connectAll connects to every listener and sees that it accepts.
func connectAll(t *testing.T, listeners []net.Listener) {
	t.Helper()
	for _, listener := range listeners {
		conn, err := net.Dial(listener.Addr().Network(), listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted.Close()
		conn.Close()
	}
}

func TestEveryKindOfAddressIsReached(t *testing.T) {
	made, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := made.(*net.TCPListener).File()
	made.Close()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(file.Fd())) // All closes what it was given
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	listeners, err := All([]string{"tcp://127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), "s"), fmt.Sprintf("fd://%d", fd)})
	if err != nil {
		t.Fatal(err)
	}
	defer Close(listeners)
	if len(listeners) != 3 {
		t.Fatalf("got %d listeners", len(listeners))
	}
	connectAll(t, listeners)
}

func TestABadAddressIsNamedWithAReason(t *testing.T) {
	for address, says := range map[string]string{
		"nonsense": "write it as tcp://HOST:PORT, unix://PATH or fd://N",
		"ftp://x":  "unknown scheme",
		"unix://":  "unix://PATH",
		"fd://x":   "not the number",
		"fd://0":   "not the number",
		"fd://-1":  "not the number",
		"tcp://x":  "missing port",
	} {
		if _, err := All([]string{address}); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestADescriptorThatIsNoSocketIsRefused(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	fd, err := syscall.Dup(int(read.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := All([]string{fmt.Sprintf("fd://%d", fd)}); !errors.Is(err, syscall.ENOTSOCK) {
		t.Errorf("got %v", err)
	}
}

func TestWhenOneFailsNoneIsLeftOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if _, err := All([]string{"unix://" + path, "ftp://x"}); err == nil {
		t.Fatal("it was taken")
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the first one still listens")
	}
}

func TestASocketNobodyListensOnIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	listeners, err := All([]string{"unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer Close(listeners)
	connectAll(t, listeners)
	if _, err := All([]string{"unix://" + path}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a living one was taken over: %v", err)
	}
}

func TestThePathOfAnInheritedSocketStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	parents, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer parents.Close()
	file, err := parents.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(file.Fd()))
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	listeners, err := All([]string{fmt.Sprintf("fd://%d", fd)})
	if err != nil {
		t.Fatal(err)
	}
	Close(listeners)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
