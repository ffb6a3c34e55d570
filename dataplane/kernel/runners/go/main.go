// SPDX-License-Identifier: Apache-2.0

// Command go is the daemon's runner for Go. It is built by the Go toolchain of the image, and so is
// each cell: as a plugin, which is loaded into this process. Code is therefore exactly Go, and
// variables stay where they are from cell to cell.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
)

const missingStatus = 3 // see kernel/runner.go

// wire is the connection with the daemon: JSON, one object on a line.
type wire struct {
	mu   sync.Mutex
	conn *os.File
	acks *os.File
}

// message is what the daemon is told. Its type comes first.
type message struct {
	Type  string         `json:"type"`
	Data  map[string]any `json:"data,omitempty"`
	Count int            `json:"count,omitempty"`
	Error *Failure       `json:"error,omitempty"`
}

// say panics when there is no JSON for what the code shows.
func (w *wire) say(message message) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err = w.conn.Write(append(line, '\n')); err != nil {
		os.Exit(1) // the daemon has gone
	}
}

// show says a result and waits until the daemon has sent it, so that output stays in order.
func (w *wire) show(forms map[string]any, count int) {
	w.say(message{Type: "result", Data: forms, Count: count})
	_, _ = w.acks.Read(make([]byte, 1)) // fails only when the daemon has gone
}

type order struct {
	Type string            `json:"type"`
	Code string            `json:"code"`
	Env  map[string]string `json:"env"`

	interrupted <-chan struct{} // closed when the cell is to end
}

// main serves until the daemon has gone. Its argument is the directory to build in.
func main() {
	w := &wire{conn: os.NewFile(3, "daemon"), acks: os.NewFile(4, "acknowledgements")}
	cells := newCells(os.Args[1], w)
	if failure := cells.run("", cells.expect()); failure != nil { // builds what every cell needs
		fmt.Fprintln(os.Stderr, "Go cannot build plugins here; it needs gcc (on Debian install gcc and libc6-dev):")
		fmt.Fprintln(os.Stderr, strings.Join(failure.Traceback, "\n"))
		os.Exit(missingStatus)
	}
	orders := make(chan order)
	go listen(bufio.NewReader(w.conn), orders, cells)
	w.say(message{Type: "ready"})
	for next := range orders {
		for name, value := range next.Env {
			_ = os.Setenv(name, value) // the daemon has checked it
		}
		w.say(message{Type: "done", Error: cells.run(next.Code, next.interrupted)})
	}
}

// listen takes orders; an interrupt does not wait for its turn.
func listen(in *bufio.Reader, orders chan<- order, cells *cells) {
	for {
		line, err := in.ReadBytes('\n')
		var next order
		if err != nil || json.Unmarshal(line, &next) != nil {
			os.Exit(0)
		}
		if next.Type == "interrupt" {
			cells.interrupt()
		} else {
			next.interrupted = cells.expect()
			orders <- next
		}
	}
}
