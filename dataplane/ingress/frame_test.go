// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestACloseFrameIsReadAsItWasBuilt(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 200)
	for _, isMasked := range []bool{false, true} {
		for _, reason := range [][]byte{nil, []byte("bye"), long} {
			reader := bufio.NewReader(bytes.NewReader(closeFrame(4001, reason, isMasked)))
			var head frameHead
			if err := head.read(reader); err != nil || head.opcode != opClose || head.isMasked != isMasked {
				t.Fatalf("%+v %v", head, err)
			}
			code, got, err := head.readClose(reader)
			if err != nil || code != 4001 || !bytes.Equal(got, reason[:min(len(reason), 123)]) {
				t.Errorf("%d %q %v", code, got, err)
			}
		}
	}
}

func FuzzFrameHead(f *testing.F) {
	f.Add([]byte("\x81\x05hello"))
	f.Add([]byte("\x82\xfe\x01\x00mask"))
	f.Add([]byte("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"))
	f.Add([]byte("\x88\x82\x01\x02\x03\x04\x0e\xa3"))
	f.Fuzz(func(t *testing.T, data []byte) {
		reader := bufio.NewReader(bytes.NewReader(data))
		var head frameHead
		err := head.read(reader)
		if err != nil {
			if !errors.Is(err, errMiddle) && !errors.Is(err, errFrame) && err != io.EOF {
				t.Fatalf("unexpected %v", err)
			}
			return
		}
		if !bytes.Equal(head.raw[:head.size], data[:head.size]) || head.payload>>63 != 0 {
			t.Fatalf("%+v from %x", head, data)
		}
		if head.opcode == opClose {
			if _, reason, err := head.readClose(reader); err == nil && len(reason) > 123 {
				t.Fatalf("reason of %d bytes", len(reason))
			}
		}
	})
}
