// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"time"
)

// Error is the body of an error event. Value is the bare exit code when there is one.
type Error struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// What is reported of an error: more is nothing to read, and all of it has to fit into one frame.
const (
	maxName      = 4 << 10
	maxValue     = 512 << 10
	maxTraceback = 2 << 20
	maxLine      = 64 << 10 // of a traceback; code may have lines of any length
)

// AppendError appends the terminal frame of a run that failed.
func AppendError(b []byte, failure Error, at time.Time) []byte {
	b = appendShortened(append(b, `{"type":"error","error":{"ename":`...), failure.Name, maxName)
	b = appendShortened(append(b, `,"evalue":`...), failure.Value, maxValue)
	b = append(b, `,"traceback":[`...)
	for i, end := 0, len(b)+maxTraceback; i < len(failure.Traceback); i++ {
		if i > 0 {
			b = append(b, ',')
		}
		if len(b) > end {
			b = AppendString(b, fmt.Appendf(nil, "… (%d more lines)", len(failure.Traceback)-i))
			break
		}
		b = appendShortened(b, failure.Traceback[i], maxLine)
	}
	return appendEnd(append(b, "]}"...), at, -1)
}

// appendShortened is AppendString for at most limit bytes, as encoded, and a word on what is left out.
func appendShortened(b []byte, text string, limit int) []byte {
	whole := []byte(text)
	n := fitting(whole, limit)
	if n == len(whole) {
		return AppendString(b, whole)
	}
	return AppendString(b, fmt.Appendf(whole[:n:n], "… (%d more bytes)", len(whole)-n))
}
