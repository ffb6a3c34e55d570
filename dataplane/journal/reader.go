// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Chunk is a piece of output. Offset is the cursor of its first byte, so Offset+len(Data) is the
// cursor to go on from. Data is valid until the next call of Next.
type Chunk struct {
	Source Source
	Offset int64
	At     time.Time
	Data   []byte
}

// Reader reads a journal from a cursor on. While it is open nothing it has yet to read is dropped,
// so it must be closed.
type Reader struct {
	journal *Journal
	at      place // guarded by journal.mu
	skip    int64 // output bytes of the frame at `at` that come before the cursor
	end     int64 // a sealed journal is read at least to here
	buffer  []byte
}

// Read opens a reader at cursor. When the journal no longer has that byte the reader begins at the
// oldest one it has; a cursor past the end waits for the byte to come.
func (j *Journal) Read(cursor int64) *Reader {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := &Reader{journal: j, at: j.tail, end: j.head.output}
	cursor = max(cursor, j.tail.output)
	i, _ := slices.BinarySearchFunc(j.index, cursor, func(p place, c int64) int {
		if p.output <= c {
			return -1
		}
		return 1
	})
	if i > 0 {
		r.at = j.index[i-1]
	}
	r.skip = cursor - r.at.output
	j.readers[r] = struct{}{}
	j.users++
	return r
}

// Cursor is the offset of the byte that Next begins with.
func (r *Reader) Cursor() int64 {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	return r.at.output + r.skip
}

// Next returns the next piece of output, waiting for it. It returns io.EOF at the end of the run.
func (r *Reader) Next(ctx context.Context) (Chunk, error) {
	for {
		chunk, changed, err := r.poll()
		if changed == nil {
			return chunk, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Chunk{}, context.Cause(ctx)
		}
	}
}

// Poll is Next without waiting: io.EOF means that there is nothing more now.
func (r *Reader) Poll() (Chunk, error) {
	chunk, changed, err := r.poll()
	if changed != nil {
		return Chunk{}, io.EOF
	}
	return chunk, err
}

// poll returns a chunk, an error, or a channel that is closed when it is worth asking again.
func (r *Reader) poll() (Chunk, <-chan struct{}, error) {
	j := r.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		switch {
		case j.isDiscarded && j.ring == nil && r.at.ring < j.head.ring:
			return Chunk{}, nil, ErrDiscarded
		case r.at.ring >= j.head.ring:
			if j.sealed >= 0 && r.at.output >= max(j.sealed, r.end) || j.isDiscarded {
				return Chunk{}, nil, io.EOF
			}
			return Chunk{}, j.waiter(), nil
		case j.sealed >= 0 && r.at.output >= max(j.sealed, r.end):
			return Chunk{}, nil, io.EOF
		}
		chunk, err := r.take()
		if err != nil || len(chunk.Data) > 0 {
			return chunk, nil, err
		}
	}
}

// take reads the frame at the reader's place and steps over it. The lock is given away for the read:
// the frame stays, because the reader stands on it.
func (r *Reader) take() (Chunk, error) {
	j := r.journal
	if j.ring == nil { // an open one is read to its end, also when the journal was discarded meanwhile
		if err := j.openRing(); err != nil {
			return Chunk{}, err
		}
	}
	source, limit, at := j.ring, j.limit, r.at
	j.mu.Unlock()
	chunk, err := r.readFrame(source, limit, at)
	j.mu.Lock()
	if err != nil {
		return Chunk{}, fmt.Errorf("read journal: %w", err)
	}
	length := int64(len(chunk.Data))
	r.at.ring += headerSize + length
	r.at.output += length
	skipped := min(r.skip, length)
	r.skip -= skipped
	chunk.Offset += skipped
	chunk.Data = chunk.Data[skipped:]
	j.broadcast() // a writer may wait for this frame to be read
	return chunk, nil
}

func (r *Reader) readFrame(source ring, limit int64, at place) (Chunk, error) {
	kind, length, when, err := readHeader(source, limit, at.ring)
	if err != nil {
		return Chunk{}, err
	}
	if cap(r.buffer) < length {
		r.buffer = make([]byte, length, max(length, 4<<10))
	}
	data := r.buffer[:length]
	if err := readRing(source, limit, at.ring+headerSize, data); err != nil {
		return Chunk{}, err
	}
	return Chunk{Source: kind, Offset: at.output, At: when, Data: data}, nil
}

// Close lets the journal drop what this reader has not read.
func (r *Reader) Close() {
	j := r.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.readers[r]; !ok {
		return
	}
	delete(j.readers, r)
	j.release()
	j.broadcast()
}
