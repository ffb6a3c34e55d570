// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the output of one run: byte for byte, in the order it came, on disk and
// bounded. Whoever wants output (the client that started the run, one that lost its stream, one that
// asks later) reads it from here by cursor, the count of output bytes before it.
//
// On disk a journal is a ring of frames. When the ring is full the oldest frames make room, except
// those that a Reader still has to read: then the writer waits, and the program behind it feels a
// full pipe.
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Source tells which output of the program bytes came from.
type Source byte

// The two outputs of a program.
const (
	Stdout Source = 1
	Stderr Source = 2
)

// DefaultLimit bounds the file of one journal.
const DefaultLimit = 16 << 20

const (
	headerSize   = 12       // source, payload length (24 bit), time (ms)
	maxPayload   = 64 << 10 // of one frame
	memoryLimit  = 256 << 10
	indexSpacing = 64 << 10 // ring bytes between two index entries
	minimumLimit = 2 * (headerSize + maxPayload)
)

// ErrDiscarded says that the journal was removed to make room for newer ones.
var ErrDiscarded = errors.New("journal was discarded")

// place is a frame boundary: where it is in the endless byte count of the ring, and how many bytes
// of output came before it.
type place struct {
	ring   int64
	output int64
}

// Journal is the output of one run. All methods may be called at once from any goroutine, but Append
// for one Source only from one.
type Journal struct {
	path string

	mu          sync.Mutex
	ring        ring // nil until the first byte, and while nobody needs it
	limit       int64
	isInMemory  bool
	users       int // writers and readers that need the ring open
	head, tail  place
	index       []place // sparse, ascending, all >= tail
	sealed      int64   // output offset of the end of the run; -1 while it goes on
	isDiscarded bool
	readers     map[*Reader]struct{}
	changed     chan struct{} // closed when something a waiter may wait for has happened; nil: no waiter
}

// New makes a journal whose file will be path, made at the first byte and at most limit bytes long.
func New(path string, limit int64) *Journal {
	return &Journal{path: path, limit: max(limit, minimumLimit), sealed: -1, readers: map[*Reader]struct{}{}}
}

// Append adds bytes. It waits while they would push out what an open Reader has not read, and gives
// up when the journal is discarded.
func (j *Journal) Append(source Source, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), maxPayload)
		if err := j.appendFrame(source, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (j *Journal) appendFrame(source Source, payload []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.users++
	defer j.release()
	if err := j.openRing(); err != nil {
		return err
	}
	if err := j.makeRoom(int64(headerSize + len(payload))); err != nil {
		return err
	}
	frame := make([]byte, 0, headerSize+512)
	frame = appendHeader(frame, source, len(payload), time.Now())
	err := j.write(frame, payload)
	if err != nil && !j.isInMemory { // disk full, or gone: keep the run alive with a smaller ring in memory
		if err = j.moveToMemory(); err == nil {
			if err = j.makeRoom(int64(headerSize + len(payload))); err == nil {
				err = j.write(frame, payload)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if len(j.index) == 0 || j.head.ring-j.index[len(j.index)-1].ring >= indexSpacing {
		j.index = append(j.index, j.head)
	}
	j.head.ring += int64(headerSize + len(payload))
	j.head.output += int64(len(payload))
	j.broadcast()
	return nil
}

func (j *Journal) write(header, payload []byte) error {
	if len(payload) <= cap(header)-len(header) { // small: one system call
		return writeRing(j.ring, j.limit, j.head.ring, append(header, payload...))
	}
	if err := writeRing(j.ring, j.limit, j.head.ring, header); err != nil {
		return err
	}
	return writeRing(j.ring, j.limit, j.head.ring+headerSize, payload)
}

// makeRoom drops the oldest frames until need bytes fit, waiting for readers that hold them.
func (j *Journal) makeRoom(need int64) error {
	for j.head.ring+need-j.tail.ring > j.limit {
		if j.isDiscarded {
			return ErrDiscarded
		}
		if j.isHeld(j.tail) {
			j.wait()
			continue
		}
		_, length, _, err := readHeader(j.ring, j.limit, j.tail.ring)
		if err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		j.tail.ring += int64(headerSize + length)
		j.tail.output += int64(length)
		for len(j.index) > 0 && j.index[0].ring < j.tail.ring {
			j.index = j.index[1:]
		}
	}
	if j.isDiscarded {
		return ErrDiscarded
	}
	return nil
}

func (j *Journal) isHeld(p place) bool {
	for r := range j.readers {
		if r.at.ring <= p.ring {
			return true
		}
	}
	return false
}

// moveToMemory replaces the ring by a small one in memory once every reader has read all there is.
func (j *Journal) moveToMemory() error {
	for j.hasReaderBehind() {
		if j.isDiscarded {
			return ErrDiscarded
		}
		j.wait()
	}
	if j.isInMemory { // the other writer was faster
		return nil
	}
	if j.ring != nil {
		_ = j.ring.Close()
	}
	_ = os.Remove(j.path)
	j.ring, j.limit, j.isInMemory = make(memoryRing, memoryLimit), memoryLimit, true
	j.tail, j.index = j.head, nil
	return nil
}

func (j *Journal) hasReaderBehind() bool {
	for r := range j.readers {
		if r.at.ring < j.head.ring {
			return true
		}
	}
	return false
}

// Hold keeps the file open for a writer until Release.
func (j *Journal) Hold() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.users++
}

// Release undoes Hold. The last user to go closes the file; its bytes stay.
func (j *Journal) Release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.release()
}

func (j *Journal) release() {
	j.users--
	if j.users == 0 && j.ring != nil && !j.isInMemory {
		_ = j.ring.Close()
		j.ring = nil
	}
}

func (j *Journal) openRing() error {
	if j.isDiscarded {
		return ErrDiscarded
	}
	if j.ring != nil {
		return nil
	}
	flags := os.O_RDWR
	if j.head.ring == 0 {
		flags |= os.O_CREATE | os.O_EXCL
	}
	file, err := os.OpenFile(j.path, flags, 0o600)
	if err != nil && j.head.ring > 0 {
		return fmt.Errorf("open journal: %w", err)
	}
	if err != nil { // no place on disk at all
		j.ring, j.limit, j.isInMemory = make(memoryRing, memoryLimit), memoryLimit, true
		return nil
	}
	j.ring = file
	return nil
}

// Seal marks the end of the run at the bytes there are now. Processes that outlive the run may still
// append; readers of the run do not wait for them.
func (j *Journal) Seal() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.sealed < 0 {
		j.sealed = j.head.output
		j.broadcast()
	}
}

// IsSealed reports whether the run has ended and all its output is here.
func (j *Journal) IsSealed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sealed >= 0
}

// Discard removes the journal. Readers get ErrDiscarded or what they had begun to read.
func (j *Journal) Discard() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.isDiscarded {
		return
	}
	j.isDiscarded = true
	if j.head.ring > 0 && !j.isInMemory {
		_ = os.Remove(j.path)
	}
	if j.isInMemory && j.users == 0 {
		j.ring = nil
	}
	j.broadcast()
}

// Size is the count of output bytes so far: the cursor of what comes next.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head.output
}

// Kept is the room the journal takes now.
func (j *Journal) Kept() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.isDiscarded {
		return 0
	}
	return min(j.head.ring, j.limit)
}

// broadcast wakes every waiter; each looks again at what it waits for.
func (j *Journal) broadcast() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// waiter returns the channel that the next broadcast closes.
func (j *Journal) waiter() <-chan struct{} {
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return j.changed
}

// wait gives the lock away until the next broadcast.
func (j *Journal) wait() {
	changed := j.waiter()
	j.mu.Unlock()
	<-changed
	j.mu.Lock()
}

func appendHeader(b []byte, source Source, length int, at time.Time) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(source)<<24|uint32(length))
	return binary.BigEndian.AppendUint64(b, uint64(at.UnixMilli()))
}

func readHeader(r ring, limit, at int64) (Source, int, time.Time, error) {
	var b [headerSize]byte
	if err := readRing(r, limit, at, b[:]); err != nil {
		return 0, 0, time.Time{}, err
	}
	word := binary.BigEndian.Uint32(b[:])
	length := int(word & 0xffffff)
	if length == 0 || length > maxPayload {
		return 0, 0, time.Time{}, errors.New("journal file was changed from outside")
	}
	return Source(word >> 24), length, time.UnixMilli(int64(binary.BigEndian.Uint64(b[4:]))), nil
}
