// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAResultIsOneLineWithPlainTextCalledText(t *testing.T) {
	value := Value{Data: map[string]json.RawMessage{
		"text/plain":       json.RawMessage(`"a\u2028b"`),
		"text/html":        json.RawMessage("\"c\u2028d\u0085\""),
		"application/json": json.RawMessage("{\n \"rows\": [1, null]\n}"),
	}, DisplayID: "7", IsUpdate: true}
	got := string(AppendResult(nil, value, at))
	want := `{"type":"result","results":{"application/json":{"rows":[1,null]},"text/html":"c\u2028d\u0085","text":"a\u2028b"},"display_id":"7","update":true,"timestamp":1718000000000}` + "\n\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFormsThatDoNotFitAreLeftOutAndNamed(t *testing.T) {
	large, _ := json.Marshal(strings.Repeat("x", MaxFrame))
	small := json.RawMessage(`"small"`)
	fitting, notes := Fit(map[string]json.RawMessage{"text/plain": small, "image/png": large, "text/html": large})
	if len(fitting) != 1 || string(fitting["text/plain"]) != string(small) {
		t.Errorf("got %d forms", len(fitting))
	}
	if len(notes) != 2 || !strings.Contains(notes[0]+notes[1], "image/png") || !strings.Contains(notes[0]+notes[1], "text/html") {
		t.Errorf("got %q", notes)
	}
}

func TestTheCountOfACell(t *testing.T) {
	if got := string(AppendCount(nil, 3, at)); got != `{"type":"execution_count","execution_count":3,"timestamp":1718000000000}`+"\n\n" {
		t.Errorf("got %q", got)
	}
}

func FuzzResultsStayOneLineOfJSON(f *testing.F) {
	f.Add("a\u0085\u2028", "text/plain")
	f.Fuzz(func(t *testing.T, text, kind string) {
		form, err := json.Marshal(text)
		if err != nil {
			t.Skip()
		}
		fitting, _ := Fit(map[string]json.RawMessage{kind: form})
		for _, one := range decode(t, AppendResult(nil, Value{Data: fitting}, at)) {
			if one.Type != Result {
				t.Fatalf("got %+v", one)
			}
		}
	})
}
