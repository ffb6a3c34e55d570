// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"

	"opensandbox.io/dataplane/event"
)

// maxMessage bounds one line of a runner. A larger one is read, not kept, and reported as missing. Lines
// begin with their type, so that it is known also then.
const maxMessage = 64 << 20

// order is what a runner is told: "start" once, where its parent needs it, then "run" for each cell.
// After a signal it is told to "forget" it, and says "forgotten".
type order struct {
	Type string            `json:"type"`
	Code string            `json:"code"`
	Dir  string            `json:"dir,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
}

// message is what a runner says: "ready" once, "result" for each value, "done" at the end of a cell.
type message struct {
	Type      string                     `json:"type"`
	PID       int                        `json:"pid"` // in "ready", of a runner that we did not start
	Data      map[string]json.RawMessage `json:"data"`
	Count     int                        `json:"count"`
	DisplayID string                     `json:"display_id"`
	IsUpdate  bool                       `json:"update"`
	Error     *event.Error               `json:"error"`
}

// What stands for a message that is too large.
var (
	errorTooLarge  = event.Error{Name: "ErrorTooLarge", Value: "the code failed with an error of more than 64 MiB, which was left out"}
	resultTooLarge = map[string]json.RawMessage{
		"text/plain": json.RawMessage(`"(a result of more than 64 MiB was left out; write it to a file)"`),
	}
)

// withoutContent stands for a message that is too large, of which this is the beginning.
func withoutContent(beginning []byte) message {
	if bytes.HasPrefix(beginning, []byte(`{"type":"done"`)) {
		return message{Type: "done", Error: &errorTooLarge}
	}
	return message{Type: "result", Data: resultTooLarge}
}

// readLine reads a line of at most limit bytes; of a longer one it returns the beginning and says so.
func readLine(in *bufio.Reader, limit int) (line []byte, isWhole bool, err error) {
	isWhole = true
	for {
		part, err := in.ReadSlice('\n')
		if isWhole = isWhole && len(line)+len(part) <= limit; isWhole {
			line = append(line, part...)
		}
		if err == nil {
			return line, isWhole, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, false, err
		}
	}
}
