// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// AppendResult appends the frame of a result. Forms that are together too large for one frame are
// left out, the largest first, and a frame of stderr says so.
func AppendResult(b []byte, value Value, at time.Time) []byte {
	forms, left := fittingForms(value.Data)
	for _, kind := range left {
		note := fmt.Sprintf("The form %s of a result has %d bytes, more than fit; write it to a file and download that.\n", kind, len(value.Data[kind]))
		b = AppendText(b, Stderr, []byte(note), at, -1)
	}
	if len(forms) == 0 && len(value.Data) > 0 {
		return b
	}
	b = append(b, `{"type":"result","results":{`...)
	for i, kind := range forms {
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

// fittingForms are the MIME types that go into one frame, in order, and those that do not.
func fittingForms(data map[string]json.RawMessage) (forms, left []string) {
	for kind := range data {
		forms = append(forms, kind)
	}
	slices.SortFunc(forms, func(a, b string) int { return len(data[a]) - len(data[b]) })
	room := MaxFrame - 4096
	for i, kind := range forms {
		if room -= len(appendJSON(nil, data[kind])) + 2*len(kind); room < 0 {
			left = append(left, forms[i:]...)
			forms = forms[:i]
			break
		}
	}
	slices.Sort(forms)
	return forms, left
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
