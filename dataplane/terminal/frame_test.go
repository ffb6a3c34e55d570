// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestFramesOfTheContractAreUnderstood(t *testing.T) {
	for message, want := range map[string]Frame{
		`{"type":"stdin","data":"ls\n"}`:                     {Action: Input, Data: []byte("ls\n")},
		`{"type":"stdin","data":""}`:                         {Action: Input, Data: []byte{}},
		`{"type":"stdin","data":"\u00fc","other":[1,{}]}`:    {Action: Input, Data: []byte("ü")},
		`{"type":"resize","cols":120,"rows":40}`:             {Action: Resize, Cols: 120, Rows: 40},
		` {"rows":1,"cols":65535,"type":"resize"} `:          {Action: Resize, Cols: 65535, Rows: 1},
		`{"type":"signal","signal":"SIGQUIT"}`:               {Action: Signal, Signal: syscall.SIGQUIT},
		`{"type":"signal","signal":"SIGHUP","data":"other"}`: {Action: Signal, Signal: syscall.SIGHUP},
		`{"type":"ping"}`:                                    {Action: Ping},
	} {
		got, err := ParseFrame(false, []byte(message))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", message, got, err)
		}
	}
	got, err := ParseFrame(true, []byte("\x00\xff\x00raw"))
	if err != nil || got.Action != Input || string(got.Data) != "\xff\x00raw" {
		t.Errorf("binary: got %+v, %v", got, err)
	}
}

func TestOtherFramesAreRefusedWithAReason(t *testing.T) {
	for _, message := range []string{
		``, `{`, `[]`, `null`, `"stdin"`, `{}`, `{"type":"stdin"}`, `{"type":"stdin","data":7}`, `{"type":7}`,
		`{"type":"resize"}`, `{"type":"resize","cols":0,"rows":24}`, `{"type":"resize","cols":80,"rows":65536}`,
		`{"type":"resize","cols":-1,"rows":24}`, `{"type":"resize","cols":80.5,"rows":24}`, `{"type":"resize","cols":1e99,"rows":24}`,
		`{"type":"signal"}`, `{"type":"signal","signal":"SIGSTOP"}`, `{"type":"signal","signal":"INT"}`, `{"type":"signal","signal":9}`,
		`{"type":"unheard"}`, `{"type":"ping"}{"type":"ping"}`, "\x00ls", strings.Repeat(`[`, 100_000),
	} {
		if frame, err := ParseFrame(false, []byte(message)); err == nil || err.Error() == "" {
			t.Errorf("%.40q: got %+v", message, frame)
		}
	}
	for _, message := range []string{"", "\x01", "\x03abc", "{"} {
		if frame, err := ParseFrame(true, []byte(message)); err == nil {
			t.Errorf("binary %q: got %+v", message, frame)
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	f.Add(true, []byte("\x00ls\n"))
	f.Add(true, []byte{})
	f.Add(false, []byte(`{"type":"stdin","data":"ls"}`))
	f.Add(false, []byte(`{"type":"resize","cols":80,"rows":24}`))
	f.Add(false, []byte(`{"type":"signal","signal":"SIGINT"}`))
	f.Add(false, []byte(`{"type":"ping"}`))
	f.Fuzz(func(t *testing.T, isBinary bool, message []byte) {
		frame, err := ParseFrame(isBinary, message)
		if err != nil {
			if !reflect.DeepEqual(frame, Frame{}) {
				t.Errorf("a refused frame has content: %+v", frame)
			}
			return
		}
		switch frame.Action {
		case Input:
			if isBinary && string(frame.Data) != string(message[1:]) {
				t.Errorf("binary input changed: %q", frame.Data)
			}
		case Resize:
			if frame.Cols == 0 || frame.Rows == 0 {
				t.Errorf("a window without size: %+v", frame)
			}
		case Signal:
			if frame.Signal <= 0 {
				t.Errorf("no signal: %+v", frame)
			}
		case Ping:
		default:
			t.Errorf("no action: %+v", frame)
		}
	})
}
