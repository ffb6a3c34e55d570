// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests run in a network of their own: a node with routed pods, as the cluster has them. The test
// binary starts itself again in new namespaces, so nothing of it is left behind, however it ends.
func TestMain(m *testing.M) {
	const inside = "POLICY_TEST_INSIDE"
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), inside+"=1")
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	if err := again.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// place is a network namespace with an address: a pod, or the outside world. The node has no name.
type place struct {
	name, address string
}

// build makes the namespaces and joins them to the node by a routed link each.
func build(t *testing.T, places ...place) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "", "mount -t tmpfs none /run/netns")
	t.Cleanup(func() { run(t, "", "umount -l /run/netns") })
	run(t, "", "sysctl -qw net.ipv4.ip_forward=1")
	for i, place := range places {
		link := fmt.Sprintf("link%d", i)
		run(t, "", "ip netns add "+place.name)
		t.Cleanup(func() { run(t, "", "ip netns del "+place.name) })
		run(t, "", fmt.Sprintf("ip link add %s type veth peer name eth0 netns %s", link, place.name))
		t.Cleanup(func() { run(t, "", "ip link del "+link) }) // the kernel takes its time with namespaces
		run(t, "", "ip addr add 10.9.0.1/32 dev "+link)
		run(t, "", fmt.Sprintf("ip link set %s up", link))
		run(t, "", fmt.Sprintf("ip route add %s dev %s", place.address, link))
		inside := "ip netns exec " + place.name + " "
		run(t, "", inside+"ip link set lo up")
		run(t, "", inside+"ip addr add "+place.address+"/32 dev eth0")
		run(t, "", inside+"ip link set eth0 up")
		run(t, "", inside+"ip route add 10.9.0.1 dev eth0")
		run(t, "", inside+"ip route add default via 10.9.0.1")
	}
}

// run runs a command of plain words in the node's namespaces, with some input.
func run(t *testing.T, input, command string) {
	t.Helper()
	words := strings.Fields(command)
	process := exec.Command(words[0], words[1:]...)
	process.Stdin = strings.NewReader(input)
	if output, err := process.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, output, input)
	}
}

// in calls do with sockets made in the place's network.
func (p place) in(t *testing.T, do func()) {
	t.Helper()
	if p.name == "" {
		do()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + p.name)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// serve answers connections to a port with what it reads, until the test ends.
func (p place) serve(t *testing.T, port int) {
	t.Helper()
	p.in(t, func() {
		listener, err := net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr(p.address), uint16(port)).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				connection, err := listener.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				go echo(connection)
			}
		}()
	})
}

func echo(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, 64)
	for {
		n, err := connection.Read(buffer)
		if err != nil {
			return
		}
		if _, err := connection.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// patience bounds how long a packet that is dropped is waited for; refusals arrive at once.
const patience = 400 * time.Millisecond

// dial connects from one place to a port of another.
func (p place) dial(t *testing.T, to place, port int) (connection net.Conn, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p.in(t, func() {
		connection, err = (&net.Dialer{}).DialContext(ctx, "tcp4", fmt.Sprintf("%s:%d", to.address, port))
	})
	return connection, err
}

// reaches says whether a connection is made. A port where nobody listens is a mistake of the test.
func (p place) reaches(t *testing.T, to place, port int) bool {
	t.Helper()
	connection, err := p.dial(t, to, port)
	if errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("nobody listens at %s:%d", to.name, port)
	}
	if err != nil {
		return false
	}
	connection.Close()
	return true
}
