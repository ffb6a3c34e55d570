// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// plainText is the MIME type that the contract calls "text" in a result.
const plainText = "text/plain"

// maxDisplayID bounds the name of a display. Those that code makes up for itself are short.
const maxDisplayID = 1 << 10

// Value is a result in every form there is of it, by MIME type.
type Value struct {
	Data      map[string]json.RawMessage
	DisplayID string // empty: it has none
	IsUpdate  bool   // replaces the result with this id
}

// AppendCount appends the frame of a cell's number, which comes before its result.
func AppendCount(b []byte, count int, at time.Time) []byte {
	b = append(b, `{"type":"execution_count","execution_count":`...)
	return appendEnd(strconv.AppendInt(b, int64(count), 10), at, -1)
}

// Fit returns the forms of a result that go into one frame together, the smallest first, and a note
// for each that does not.
func Fit(data map[string]json.RawMessage) (fitting map[string]json.RawMessage, notes []string) {
	kinds := slices.SortedFunc(maps.Keys(data), func(a, b string) int { return len(data[a]) - len(data[b]) })
	fitting = map[string]json.RawMessage{}
	room := MaxFrame - 4096
	for _, kind := range kinds {
		if room >= 0 {
			room -= len(appendJSON(nil, data[kind])) + 2*len(kind)
		}
		if room >= 0 {
			fitting[kind] = data[kind]
			continue
		}
		notes = append(notes, fmt.Sprintf("The form %.100s of a result has %d bytes, more than fit; write it to a file and download that.\n", kind, len(data[kind])))
	}
	return fitting, notes
}

// AppendResult appends the frame of a result whose forms fit.
func AppendResult(b []byte, value Value, at time.Time) []byte {
	b = append(b, `{"type":"result","results":{`...)
	for i, kind := range slices.Sorted(maps.Keys(value.Data)) {
		if i > 0 {
			b = append(b, ',')
		}
		name := kind
		if kind == plainText {
			name = "text"
		}
		b = append(AppendString(b, []byte(name)), ':')
		b = appendJSON(b, value.Data[kind])
	}
	b = append(b, '}')
	if value.DisplayID != "" {
		b = appendShortened(append(b, `,"display_id":`...), value.DisplayID, maxDisplayID)
	}
	if value.IsUpdate {
		b = append(b, `,"update":true`...)
	}
	return appendEnd(b, at, -1)
}

// appendJSON appends a JSON value on one line, with the characters escaped that AppendString escapes.
func appendJSON(b []byte, value json.RawMessage) []byte {
	var line bytes.Buffer
	if json.Compact(&line, value) != nil { // it was parsed before, so it is JSON
		return append(b, "null"...)
	}
	rest := line.Bytes()
	for len(rest) > 0 {
		i := bytes.IndexAny(rest, "\u0085\u2028\u2029")
		if i < 0 {
			break
		}
		b = append(b, rest[:i]...)
		r := []rune(string(rest[i:min(len(rest), i+3)]))[0]
		b = append(b, '\\', 'u', hex[r>>12&0xf], hex[r>>8&0xf], hex[r>>4&0xf], hex[r&0xf])
		rest = rest[i+len(string(r)):]
	}
	return append(b, rest...)
}
