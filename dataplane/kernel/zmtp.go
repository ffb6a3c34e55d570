// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"
)

// zmtp is one connection of ZeroMQ's protocol, version 3.0, as a client: as much of it as Jupyter
// kernels speak.
type zmtp struct {
	conn net.Conn
	in   *bufio.Reader

	mu sync.Mutex // one sender at a time
}

const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4

	greetingSize = 64
	maxFrames    = 64 // of one message
	// handshakeLimit bounds how long a kernel that accepted takes to greet.
	handshakeLimit = 20 * time.Second
)

var errPeer = errors.New("the kernel does not speak ZeroMQ 3")

// dialZMTP connects as a socket of this type: DEALER, or SUB for everything there is.
func dialZMTP(address, socketType string) (*zmtp, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	z := &zmtp{conn: conn, in: bufio.NewReader(conn)}
	_ = conn.SetDeadline(time.Now().Add(handshakeLimit))
	if err := z.greet(socketType); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("greet %s: %w", address, err)
	}
	_ = conn.SetDeadline(time.Time{})
	if socketType == "SUB" {
		if err := z.send([]byte{1}); err != nil { // 1 and an empty topic: all of them
			_ = conn.Close()
			return nil, err
		}
	}
	return z, nil
}

func (z *zmtp) greet(socketType string) error {
	greeting := make([]byte, greetingSize)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	if _, err := z.conn.Write(greeting); err != nil {
		return err
	}
	if _, err := io.ReadFull(z.in, greeting); err != nil {
		return err
	}
	if greeting[0] != 0xff || greeting[10] < 3 {
		return errPeer
	}
	ready := append([]byte{5}, "READY"...)
	ready = appendProperty(ready, "Socket-Type", socketType)
	ready = appendProperty(ready, "Identity", "")
	if _, err := z.conn.Write(appendFrame(nil, flagCommand, ready)); err != nil {
		return err
	}
	flags, _, err := z.readFrame(maxMessage)
	if err == nil && flags&flagCommand == 0 {
		err = errPeer
	}
	return err
}

func appendProperty(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		b = binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}

// send sends one message.
func (z *zmtp) send(parts ...[]byte) error {
	var b []byte
	for i, part := range parts {
		flags := byte(flagMore)
		if i == len(parts)-1 {
			flags = 0
		}
		b = appendFrame(b, flags, part)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	_, err := z.conn.Write(b)
	return err
}

// limitSend bounds what is sent from now on.
func (z *zmtp) limitSend(limit time.Duration) { _ = z.conn.SetWriteDeadline(time.Now().Add(limit)) }

// receive waits for the next message. Of one with more than maxMessage bytes the parts are nil that
// have no room.
func (z *zmtp) receive() ([][]byte, error) {
	var parts [][]byte
	room := maxMessage
	for {
		flags, body, err := z.readFrame(room)
		if err != nil {
			return nil, err
		}
		room -= len(body)
		if flags&flagCommand != 0 {
			if err := z.answer(body); err != nil {
				return nil, err
			}
			continue
		}
		if parts = append(parts, body); len(parts) > maxFrames {
			return nil, errPeer
		}
		if flags&flagMore == 0 {
			return parts, nil
		}
	}
}

// answer answers a ping; other commands mean nothing here.
func (z *zmtp) answer(command []byte) error {
	const ping = "\x04PING"
	if len(command) < len(ping)+2 || string(command[:len(ping)]) != ping {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	pong := append([]byte("\x04PONG"), command[len(ping)+2:]...) // what follows the time to live
	_, err := z.conn.Write(appendFrame(nil, flagCommand, pong))
	return err
}

// readFrame reads a frame; one that is longer than room is passed over, and its body is nil.
func (z *zmtp) readFrame(room int) (flags byte, body []byte, err error) {
	if flags, err = z.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	var size uint64
	if flags&flagLong != 0 {
		var b [8]byte
		_, err = io.ReadFull(z.in, b[:])
		size = binary.BigEndian.Uint64(b[:])
	} else {
		var b byte
		b, err = z.in.ReadByte()
		size = uint64(b)
	}
	if err != nil {
		return 0, nil, err
	}
	if size > math.MaxInt64 {
		return 0, nil, errPeer
	}
	if size > uint64(room) {
		_, err = io.CopyN(io.Discard, z.in, int64(size))
		return flags, nil, err
	}
	body = make([]byte, size)
	_, err = io.ReadFull(z.in, body)
	return flags, body, err
}

func (z *zmtp) close() { _ = z.conn.Close() }
