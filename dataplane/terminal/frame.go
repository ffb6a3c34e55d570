// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"encoding/json"
	"fmt"
	"math"
	"syscall"
)

// Action is what a client's frame asks for.
type Action int

// The actions a client can ask for.
const (
	Input Action = iota + 1
	Resize
	Signal
	Ping
)

// Frame is one message of a client; which fields count depends on Action.
type Frame struct {
	Action     Action
	Data       []byte // Input
	Cols, Rows uint16 // Resize
	Signal     syscall.Signal
}

const inputByte = 0x00

var signals = map[string]syscall.Signal{
	"SIGINT":  syscall.SIGINT,
	"SIGTERM": syscall.SIGTERM,
	"SIGKILL": syscall.SIGKILL,
	"SIGQUIT": syscall.SIGQUIT,
	"SIGHUP":  syscall.SIGHUP,
}

// ParseFrame reads one message of a client. Every fault has an error a person can act on. Data may
// share memory with message.
func ParseFrame(isBinary bool, message []byte) (Frame, error) {
	if !isBinary {
		return parseText(message)
	}
	if len(message) == 0 {
		return Frame{}, fmt.Errorf("a binary frame must start with its type byte")
	}
	if message[0] != inputByte {
		return Frame{}, fmt.Errorf("unknown type byte 0x%02x; 0x00 is stdin", message[0])
	}
	return Frame{Action: Input, Data: message[1:]}, nil
}

func parseText(message []byte) (Frame, error) {
	var fields struct {
		Type   string
		Data   *string
		Cols   int
		Rows   int
		Signal string
	}
	if err := json.Unmarshal(message, &fields); err != nil {
		return Frame{}, fmt.Errorf("a text frame must be a JSON object: %w", err)
	}
	switch fields.Type {
	case "stdin":
		if fields.Data == nil {
			return Frame{}, fmt.Errorf("a stdin frame needs data")
		}
		return Frame{Action: Input, Data: []byte(*fields.Data)}, nil
	case "resize":
		if !isSize(fields.Cols) || !isSize(fields.Rows) {
			return Frame{}, fmt.Errorf("cols and rows must be 1..%d", math.MaxUint16)
		}
		return Frame{Action: Resize, Cols: uint16(fields.Cols), Rows: uint16(fields.Rows)}, nil
	case "signal":
		signal, isKnown := signals[fields.Signal]
		if !isKnown {
			return Frame{}, fmt.Errorf("unknown signal %q; SIGINT, SIGTERM, SIGKILL, SIGQUIT and SIGHUP are known", fields.Signal)
		}
		return Frame{Action: Signal, Signal: signal}, nil
	case "ping":
		return Frame{Action: Ping}, nil
	}
	return Frame{}, fmt.Errorf("unknown frame type %q", fields.Type)
}

func isSize(n int) bool { return n >= 1 && n <= math.MaxUint16 }
