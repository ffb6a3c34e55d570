// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/json"
	"strings"
	"testing"
)

func decodeError(t *testing.T, failure Error) Error {
	t.Helper()
	line := string(AppendError(nil, failure, at))
	if len(line) > MaxFrame || strings.ContainsAny(strings.TrimSuffix(line, "\n\n"), "\n\r\u0085\u2028\u2029") {
		t.Fatalf("a frame of %d bytes, or not one line", len(line))
	}
	var frame struct {
		Error Error `json:"error"`
	}
	if err := json.Unmarshal([]byte(line), &frame); err != nil {
		t.Fatal(err)
	}
	return frame.Error
}

func TestAnErrorIsOneLineWhateverItSays(t *testing.T) {
	original := Error{Name: "E\u0085", Value: "a\u0085b\u2028c\nd\x00", Traceback: []string{"line\u2029", ""}}
	got := decodeError(t, original)
	if got.Name != original.Name || got.Value != original.Value || len(got.Traceback) != 2 || got.Traceback[0] != original.Traceback[0] {
		t.Errorf("got %+v", got)
	}
}

func TestAnErrorOfAnySizeFitsIntoAFrame(t *testing.T) {
	for _, letter := range []string{"x", "\x00", "ä"} {
		large := strings.Repeat(letter, 10<<20)
		got := decodeError(t, Error{Name: large, Value: large, Traceback: []string{large, large, large}})
		if !strings.HasPrefix(large, got.Value[:1000]) || !strings.Contains(got.Value, "more bytes)") {
			t.Errorf("%q is sent as %q", letter, got.Value[:20])
		}
	}
	got := decodeError(t, Error{Traceback: strings.Split(strings.Repeat("a line of a traceback\n", 1<<20), "\n")})
	if last := got.Traceback[len(got.Traceback)-1]; !strings.HasSuffix(last, "more lines)") {
		t.Errorf("ends with %q", last)
	}
}

func TestOutputOfAnySizeIsToldWholeInFramesThatFit(t *testing.T) {
	for _, letter := range []string{"x", "\x00", "😀"} {
		text := strings.Repeat(letter, 5<<20/len(letter))
		frames := AppendOutput(nil, Stdout, []byte(text), at)
		var got strings.Builder
		for _, one := range decode(t, frames) {
			got.WriteString(one.Text)
		}
		for _, line := range strings.Split(string(frames), "\n\n") {
			if len(line) > MaxFrame {
				t.Errorf("%q: a frame of %d bytes", letter, len(line))
			}
		}
		if got.String() != text {
			t.Errorf("%q: %d bytes became %d", letter, len(text), got.Len())
		}
	}
}

func TestALongNameOfADisplayIsShortened(t *testing.T) {
	value := Value{Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"1"`)}, DisplayID: strings.Repeat("x", 8<<20)}
	if frames := AppendResult(nil, value, at); len(frames) > MaxFrame {
		t.Errorf("a frame of %d bytes", len(frames))
	}
}
