// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
)

// Close codes of RFC 6455 that we send or map.
const (
	closeNormal        = 1000
	closeGoingAway     = 1001
	closeProtocolError = 1002
	closePolicy        = 1008
	closeInternal      = 1011
)

const (
	opClose           = 0x8
	maxControlPayload = 125
	finBit            = 0x80
	maskBit           = 0x80
)

var (
	errFrame  = errors.New("not a WebSocket frame")
	errMiddle = errors.New("broke off in the middle of a frame")
)

// frameHead is the beginning of one frame. Payloads are relayed as they are, masked or compressed.
type frameHead struct {
	raw      [14]byte // as it came
	size     int      // of raw
	opcode   byte
	isMasked bool
	mask     [4]byte
	payload  uint64
}

// read takes a head from the stream. The error is as it came only when nothing had been read.
func (h *frameHead) read(r *bufio.Reader) error {
	first, err := r.ReadByte()
	if err != nil {
		return err
	}
	second, err := r.ReadByte()
	if err != nil {
		return errMiddle
	}
	h.raw[0], h.raw[1], h.size = first, second, 2
	h.opcode, h.isMasked = first&0xf, second&maskBit != 0
	extra := 0
	switch length := second &^ maskBit; length {
	case 126:
		extra = 2
	case 127:
		extra = 8
	default:
		h.payload = uint64(length)
	}
	rest := extra
	if h.isMasked {
		rest += 4
	}
	if _, err := io.ReadFull(r, h.raw[2:2+rest]); err != nil {
		return errMiddle
	}
	h.size += rest
	switch extra {
	case 2:
		h.payload = uint64(binary.BigEndian.Uint16(h.raw[2:]))
	case 8:
		h.payload = binary.BigEndian.Uint64(h.raw[2:])
	}
	if h.isMasked {
		copy(h.mask[:], h.raw[2+extra:])
	}
	isControl := h.opcode&0x8 != 0
	if h.payload>>63 != 0 || isControl && (h.payload > maxControlPayload || first&finBit == 0) {
		return errFrame
	}
	return nil
}

// readClose takes the payload of a close frame: a code, 0 for none, and a reason.
func (h *frameHead) readClose(r *bufio.Reader) (code int, reason []byte, err error) {
	payload := make([]byte, h.payload)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, errMiddle
	}
	if h.isMasked {
		maskBytes(payload, h.mask)
	}
	switch len(payload) {
	case 0:
		return 0, nil, nil
	case 1:
		return 0, nil, errFrame
	}
	return int(binary.BigEndian.Uint16(payload)), payload[2:], nil
}

// closeFrame builds a close frame. Those to a server must be masked.
func closeFrame(code int, reason []byte, isMasked bool) []byte {
	reason = reason[:min(len(reason), maxControlPayload-2)]
	frame := []byte{finBit | opClose, byte(2 + len(reason))}
	var mask [4]byte
	if isMasked {
		_, _ = rand.Read(mask[:]) // it never fails
		frame[1] |= maskBit
		frame = append(frame, mask[:]...)
	}
	start := len(frame)
	frame = binary.BigEndian.AppendUint16(frame, uint16(code))
	frame = append(frame, reason...)
	maskBytes(frame[start:], mask)
	return frame
}

func maskBytes(p []byte, mask [4]byte) {
	for i := range p {
		p[i] ^= mask[i%4]
	}
}

// isSendable says that a code may stand in a close frame.
func isSendable(code int) bool {
	switch {
	case code >= 3000 && code <= 4999:
		return true
	case code < 1000 || code > 1014:
		return false
	}
	return code != 1004 && code != 1005 && code != 1006
}

// closeCode is what one side hears when the other closed with code, or 0 for none.
func closeCode(code int, fromClient bool) int {
	switch {
	case code == 0:
		return closeNormal
	case isSendable(code):
		return code
	case fromClient:
		return closeProtocolError
	}
	return closeInternal
}
