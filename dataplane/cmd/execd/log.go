// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	logBacklog = 1024
	// logGrace bounds how long the end waits for a reader of the log that does not read.
	logGrace = 200 * time.Millisecond
)

// logWriter writes lines without ever making their writer wait: when whoever reads the log does not,
// lines are dropped and counted. A command must not stand still for its log line.
type logWriter struct {
	lines   chan []byte
	dropped atomic.Int64
	ending  chan struct{}
	over    chan struct{}
}

func newLogWriter(to io.Writer) *logWriter {
	w := &logWriter{lines: make(chan []byte, logBacklog), ending: make(chan struct{}), over: make(chan struct{})}
	go w.run(to)
	return w
}

// Write takes one line and never fails.
func (w *logWriter) Write(line []byte) (int, error) {
	select {
	case w.lines <- append([]byte(nil), line...):
	default:
		w.dropped.Add(1)
	}
	return len(line), nil
}

func (w *logWriter) run(to io.Writer) {
	defer close(w.over)
	for {
		select {
		case line := <-w.lines:
			w.write(to, line)
			continue
		default:
		}
		select {
		case line := <-w.lines:
			w.write(to, line)
		case <-w.ending:
			return
		}
	}
}

func (w *logWriter) write(to io.Writer, line []byte) {
	if n := w.dropped.Swap(0); n > 0 {
		fmt.Fprintf(to, `{"level":"WARN","msg":"log lines were dropped","count":%d}`+"\n", n)
	}
	_, _ = to.Write(line) // there is nowhere to say that the log cannot be written
}

// close waits for what was written before it. What is written later goes nowhere.
func (w *logWriter) close() {
	close(w.ending)
	select {
	case <-w.over:
	case <-time.After(logGrace):
	}
}
