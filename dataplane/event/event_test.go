// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.UnixMilli(1718000000000)

type frame struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Cursor    int64  `json:"cursor"`
	Timestamp int64  `json:"timestamp"`
}

func decode(t *testing.T, frames []byte) []frame {
	t.Helper()
	var all []frame
	for _, part := range strings.Split(strings.TrimSuffix(string(frames), "\n\n"), "\n\n") {
		if part == "" {
			continue
		}
		if strings.ContainsAny(part, "\n\r\u0085\u2028\u2029") {
			t.Fatalf("frame is not one line: %q", part)
		}
		var f frame
		if err := json.Unmarshal([]byte(part), &f); err != nil {
			t.Fatalf("%v in %q", err, part)
		}
		all = append(all, f)
	}
	return all
}

func TestAFrameIsBareJSONWithATimestampAndTwoLineFeeds(t *testing.T) {
	got := string(AppendText(nil, Init, []byte("9f"), at, -1))
	if want := `{"type":"init","text":"9f","timestamp":1718000000000}` + "\n\n"; got != want {
		t.Errorf("got %q", got)
	}
	got = string(AppendError(nil, Error{Name: "CommandExecError", Value: "7"}, at))
	if want := `{"type":"error","error":{"ename":"CommandExecError","evalue":"7","traceback":[]},"timestamp":1718000000000}` + "\n\n"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestEveryStringDecodesToItself(t *testing.T) {
	for _, text := range []string{"", "plain", "\x00\x01\x1f\x7f", `"\/`, "tab\tcr\rlf\n", "ä€😀", "a\u0085b\u2028c\u2029d", "<&>"} {
		encoded := AppendString(nil, []byte(text))
		var back string
		if err := json.Unmarshal(encoded, &back); err != nil || back != text {
			t.Errorf("%q became %s became %q (%v)", text, encoded, back, err)
		}
		if len(encoded)-2 != encodedLen([]byte(text)) {
			t.Errorf("%q: encodedLen %d, is %d", text, encodedLen([]byte(text)), len(encoded)-2)
		}
	}
}

func TestBytesThatAreNotUTF8AreReplaced(t *testing.T) {
	if got := string(AppendString(nil, []byte("a\xffb\xc3"))); got != "\"a\ufffdb\ufffd\"" {
		t.Errorf("got %q", got)
	}
}

func FuzzStringsStayOneLineOfJSON(f *testing.F) {
	f.Add([]byte("a\u0085\xff\"\\\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		encoded := AppendString(nil, text)
		var back string
		if err := json.Unmarshal(encoded, &back); err != nil {
			t.Fatal(err)
		}
		if back != string([]rune(string(text))) { // each byte that is not UTF-8 becomes one U+FFFD
			t.Fatalf("%q became %q", text, back)
		}
		if bytes.ContainsAny(encoded, "\n\r\u0085\u2028\u2029") || len(encoded)-2 != encodedLen(text) {
			t.Fatalf("bad encoding %q", encoded)
		}
	})
}

func TestLinesAreSentWithoutTheirEnds(t *testing.T) {
	cases := map[string][]string{
		"hi\n":          {"hi"},
		"a\nb\n":        {"a", "b"},
		"a\r\nb\rc":     {"a", "b", "c"},
		"a\n\nb\n":      {"a", "\n", "b"},
		"\n":            {"\n"},
		"no end":        {"no end"},
		"50%\r60%\r\n":  {"50%", "60%"},
		"":              nil,
		"x\r\n\r\ny\n":  {"x", "\n", "y"},
		"ä\u2028b\nc\n": {"ä\u2028b", "c"},
	}
	for input, want := range cases {
		for _, size := range []int{1, 2, 3, 1000} {
			var got []string
			for _, f := range collect(t, input, size, false) {
				got = append(got, f.Text)
			}
			if strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("%q in pieces of %d: got %q, want %q", input, size, got, want)
			}
		}
	}
}

// collect sends input through Lines in pieces of size.
func collect(t *testing.T, input string, size int, dropsEmpty bool) []frame {
	lines := Lines{Kind: Stdout, DropsEmpty: dropsEmpty}
	var frames []byte
	for i := 0; i < len(input); i += size {
		end := min(i+size, len(input))
		frames = lines.Append(frames, []byte(input[i:end]), at, int64(end))
	}
	return decode(t, lines.Flush(frames, at, int64(len(input))))
}

func TestTheCursorOfALineIsJustAfterItsEnd(t *testing.T) {
	got := collect(t, "ab\ncd\r\ne", 100, false)
	if got[0].Cursor != 3 || got[1].Cursor != 7 || got[2].Cursor != 8 {
		t.Errorf("got %+v", got)
	}
	// A "\n" that comes later than its "\r" cannot be waited for.
	got = collect(t, "cd\r\ne", 1, false)
	if got[0].Cursor != 3 || got[1].Cursor != 5 {
		t.Errorf("byte by byte got %+v", got)
	}
}

func TestEmptyLinesCanBeDropped(t *testing.T) {
	if got := collect(t, "a\n\n\nb\n", 3, true); len(got) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestALineThatIsTooLongIsSplitAsLateAsPossible(t *testing.T) {
	for _, char := range []string{"x", "€", "\x01"} {
		input := strings.Repeat(char, 9<<20/len(char)) + "\n"
		lines := Lines{Kind: Stdout}
		var frames []byte
		for i := 0; i < len(input); i += 65536 {
			end := min(i+65536, len(input))
			frames = lines.Append(frames, []byte(input[i:end]), at, int64(end))
		}
		parts := bytes.Split(bytes.TrimSuffix(frames, []byte("\n\n")), []byte("\n\n"))
		var text strings.Builder
		for i, part := range parts {
			if len(part) > MaxFrame || i < len(parts)-1 && len(part) < MaxFrame-2*65536 {
				t.Errorf("%q: frame %d of %d has %d bytes", char, i, len(parts), len(part))
			}
			text.WriteString(decode(t, append(part, "\n\n"...))[0].Text)
		}
		if text.String()+"\n" != input {
			t.Errorf("%q: the parts do not make the line", char)
		}
	}
}
