// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"net"
	"strings"
	"sync"
)

// The published interpreter client takes an interpreter for ready when a command that opens this port
// succeeds: its own daemon has a Jupyter server there.
const (
	interpreterCheck = "/dev/tcp/127.0.0.1/${JUPYTER_PORT"
	interpreterPort  = "44771"
)

// interpreterListener answers that check. It listens from the first check on, so that nobody else who
// wants the port is in its way, and only where nobody else does.
type interpreterListener struct {
	mu       sync.Mutex
	listener net.Listener
	isClosed bool
}

// open makes sure that somebody listens when command is the check.
func (l *interpreterListener) open(command string, env map[string]string) {
	if !strings.Contains(command, interpreterCheck) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil || l.isClosed {
		return
	}
	port := env["JUPYTER_PORT"]
	if port == "" {
		port = interpreterPort
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return // somebody listens already, which is all that the check asks
	}
	l.listener = listener
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
}

func (l *interpreterListener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isClosed = true
	if l.listener != nil {
		_ = l.listener.Close()
	}
}
