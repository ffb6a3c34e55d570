// SPDX-License-Identifier: Apache-2.0

// Package listen turns the addresses a program was told into listeners.
package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// All opens every address: tcp://HOST:PORT, unix://PATH or fd://N, a listener that our parent made.
// When one cannot be opened none is left open.
func All(addresses []string) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, address := range addresses {
		listener, err := open(address)
		if err != nil {
			Close(listeners)
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

// Close closes all of them; those that a server has closed already are no error.
func Close(listeners []net.Listener) {
	for _, listener := range listeners {
		_ = listener.Close()
	}
}

func open(address string) (net.Listener, error) {
	scheme, place, ok := strings.Cut(address, "://")
	if !ok {
		return nil, errors.New("write it as tcp://HOST:PORT, unix://PATH or fd://N")
	}
	switch scheme {
	case "tcp":
		return net.Listen("tcp", place)
	case "unix":
		return openUnix(place)
	case "fd":
		return inherited(place)
	}
	return nil, fmt.Errorf("unknown scheme %q: use tcp, unix or fd", scheme)
}

// openUnix takes over the path of a socket that nobody listens on any more.
func openUnix(path string) (net.Listener, error) {
	if path == "" { // the kernel would choose a name that nobody knows
		return nil, errors.New("write it as unix://PATH")
	}
	listener, err := net.Listen("unix", path)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return listener, err
	}
	if conn, dialErr := net.Dial("unix", path); dialErr == nil {
		conn.Close()
		return nil, err
	}
	if removeErr := os.Remove(path); removeErr != nil {
		return nil, err
	}
	return net.Listen("unix", path)
}

// inherited is a listener that our parent made, so that clients could connect before we ran.
func inherited(number string) (net.Listener, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%q is not the number of an inherited descriptor", number)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	if unix, ok := listener.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false) // the path is our parent's
	}
	return listener, nil
}
