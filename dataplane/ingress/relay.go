// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	// socketBuffer is one of the four of a WebSocket.
	socketBuffer = 8 << 10
	// closeGrace bounds the wait for one side to close after the other did.
	closeGrace = 5 * time.Second
)

// relayWebSocket accepts the client's handshake with what the application answered, and carries frames
// until both sides have closed. A side that vanishes is reported to the other by a close frame.
func (x *exchange) relayWebSocket(ctx context.Context, backend *peer, response *http.Response) {
	response.Header.Del("Sec-Websocket-Accept")
	response.Header.Del("Content-Length")
	x.copyResponseHeader(response.Header)
	client, err := x.acceptWebSocket()
	if err != nil {
		return
	}
	defer client.Close()

	// At shutdown reads end; each direction then tells its side that we are going away.
	stop := context.AfterFunc(ctx, func() {
		_ = client.SetReadDeadline(time.Unix(1, 0))
		_ = backend.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	up := newDirection(x, client, backend, true)
	down := newDirection(x, backend, client, false)
	var both sync.WaitGroup
	both.Go(func() { up.carry(down) })
	both.Go(func() { down.carry(up) })
	both.Wait()
}

// peer is one end of a WebSocket, with the bytes that came together with its handshake.
type peer struct {
	net.Conn
	early []byte
}

func (p *peer) Read(b []byte) (int, error) {
	if len(p.early) > 0 {
		n := copy(b, p.early)
		p.early = p.early[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// direction carries frames one way. It is the only one that writes to its target.
type direction struct {
	exchange *exchange
	from, to *peer
	reader   *bufio.Reader
	writer   *bufio.Writer
	toServer bool
}

func newDirection(x *exchange, from, to *peer, toServer bool) *direction {
	d := &direction{exchange: x, from: from, to: to, toServer: toServer}
	d.writer = bufio.NewWriterSize(writerOnly{to}, socketBuffer)
	d.reader = bufio.NewReaderSize(d, socketBuffer)
	return d
}

// Read waits for the source, after everything that came before is on its way.
func (d *direction) Read(b []byte) (int, error) {
	if err := d.writer.Flush(); err != nil {
		return 0, err
	}
	return d.from.Read(b)
}

// carry ends after a close frame, or when either side breaks; then the other way has closeGrace left.
func (d *direction) carry(back *direction) {
	err := d.copyFrames()
	if err != nil && !errors.Is(err, errMiddle) {
		_ = d.to.SetWriteDeadline(time.Now().Add(closeGrace))
		_, _ = d.to.Write(closeFrame(d.codeFor(err), nil, d.toServer)) // it may have gone too
	}
	if errors.Is(err, errMiddle) {
		d.to.Close() // it waits for the rest of a frame and would take a close frame for that
	}
	_ = back.from.SetReadDeadline(time.Now().Add(closeGrace))
}

// codeFor says to one side how the other ended.
func (d *direction) codeFor(err error) int {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return closeGoingAway // nothing but our own shutdown sets one before both have closed
	case errors.Is(err, errFrame):
		return closeProtocolError
	case d.toServer:
		return closeGoingAway
	}
	return closeInternal
}

// copyFrames returns nil after it has passed on a close frame. An error other than errMiddle came
// between two frames.
func (d *direction) copyFrames() error {
	var head frameHead
	for {
		if err := head.read(d.reader); err != nil {
			return err
		}
		d.exchange.touch()
		if head.opcode == opClose {
			return d.passClose(&head)
		}
		if _, err := d.writer.Write(head.raw[:head.size]); err != nil {
			return errMiddle
		}
		if err := d.copyPayload(head.payload); err != nil {
			return errMiddle
		}
	}
}

// copyPayload passes on what is there before it waits for more. (bufio's own ReadFrom would not do:
// waiting empties the buffer that it reads into.)
func (d *direction) copyPayload(left uint64) error {
	for left > 0 {
		if _, err := d.reader.Peek(1); err != nil {
			return err
		}
		part, _ := d.reader.Peek(int(min(left, uint64(d.reader.Buffered()))))
		if _, err := d.writer.Write(part); err != nil {
			return err
		}
		_, _ = d.reader.Discard(len(part)) // it is there
		left -= uint64(len(part))
	}
	return nil
}

func (d *direction) passClose(head *frameHead) error {
	code, reason, err := head.readClose(d.reader)
	if err != nil {
		return errors.Join(err, d.writer.Flush())
	}
	_, err = d.writer.Write(closeFrame(closeCode(code, d.toServer), reason, d.toServer))
	if err != nil || d.writer.Flush() != nil {
		return errMiddle
	}
	return nil
}

// sockets are the open WebSockets, which http.Server neither ends nor waits for. The zero value has none.
type sockets struct {
	mu       sync.Mutex // guards all below
	isClosed bool
	next     int
	open     map[int]context.CancelFunc
	running  sync.WaitGroup
}

// begin gives a WebSocket its context, which ends with parent and at closeAll. end must be called.
func (s *sockets) begin(parent context.Context) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed {
		cancel()
		return ctx, func() {}
	}
	if s.open == nil {
		s.open = make(map[int]context.CancelFunc)
	}
	number := s.next
	s.next++
	s.open[number] = cancel
	s.running.Add(1)
	return ctx, func() {
		cancel()
		s.mu.Lock()
		delete(s.open, number)
		s.mu.Unlock()
		s.running.Done()
	}
}

// closeAll ends every WebSocket, waits until they are over and lets none begin after it.
func (s *sockets) closeAll() {
	s.mu.Lock()
	s.isClosed = true
	for _, cancel := range s.open {
		cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}
