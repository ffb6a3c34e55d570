// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"
)

func TestALogThatNobodyReadsStopsNobody(t *testing.T) {
	reader, writer := io.Pipe()
	log := newLogWriter(writer)
	for range logBacklog + 10 {
		if _, err := log.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&got, reader)
	}()
	log.close()
	writer.Close()
	<-done
	if !strings.Contains(got.String(), "dropped") || strings.Count(got.String(), "line\n") < logBacklog {
		t.Errorf("got %d lines, dropped told: %v", strings.Count(got.String(), "line\n"), strings.Contains(got.String(), "dropped"))
	}
	_, _ = log.Write([]byte("after the end\n"))
}
