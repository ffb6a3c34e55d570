// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

func listenAll(addresses []string) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, address := range addresses {
		listener, err := listen(address)
		if err != nil {
			closeAll(listeners)
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		listeners = append(listeners, listener)
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) {
	for _, listener := range listeners {
		_ = listener.Close() // the server may have closed it
	}
}

func listen(address string) (net.Listener, error) {
	scheme, place, ok := strings.Cut(address, "://")
	if !ok {
		return nil, errors.New("write it as tcp://HOST:PORT or fd://N")
	}
	switch scheme {
	case "tcp":
		return net.Listen("tcp", place)
	case "fd":
		return inherited(place)
	}
	return nil, fmt.Errorf("unknown scheme %q: use tcp or fd", scheme)
}

// inherited is a listener that our parent made.
func inherited(number string) (net.Listener, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%q is not the number of an inherited descriptor", number)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	return net.FileListener(file)
}
