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

func (w *wire) say(message map[string]any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line, err := json.Marshal(message)
	if err == nil {
		_, err = w.conn.Write(append(line, '\n'))
	}
	if err != nil {
		os.Exit(1) // the daemon has gone
	}
}

// show says a result and waits until the daemon has told it, so that output stays in order.
func (w *wire) show(forms map[string]any, count int) {
	message := map[string]any{"type": "result", "data": forms}
	if count > 0 {
		message["count"] = count
	}
	w.say(message)
	_, _ = w.acks.Read(make([]byte, 1)) // fails only when the daemon has gone
}

type order struct {
	Type string            `json:"type"`
	Code string            `json:"code"`
	Env  map[string]string `json:"env"`
}

// main serves until the daemon has gone. Its argument is the directory to build in.
func main() {
	w := &wire{conn: os.NewFile(3, "daemon"), acks: os.NewFile(4, "acknowledgements")}
	cells := newCells(os.Args[1], w)
	if failure := cells.run(""); failure != nil { // builds what every cell needs
		fmt.Fprintln(os.Stderr, "Go cannot build plugins here; it needs gcc (on Debian install gcc and libc6-dev):")
		fmt.Fprintln(os.Stderr, strings.Join(failure.Traceback, "\n"))
		os.Exit(missingStatus)
	}
	orders := make(chan order)
	go listen(bufio.NewReader(w.conn), orders, cells)
	w.say(map[string]any{"type": "ready"})
	for next := range orders {
		for name, value := range next.Env {
			_ = os.Setenv(name, value) // the daemon has checked it
		}
		done := map[string]any{"type": "done"}
		if failure := cells.run(next.Code); failure != nil {
			done["error"] = failure
		}
		w.say(done)
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
			orders <- next
		}
	}
}
