// SPDX-License-Identifier: Apache-2.0

package terminal

// ringSize is how much output a terminal remembers for a client that comes back.
const ringSize = 1 << 20

// ring keeps the last ringSize bytes of a stream whose bytes are counted from 0. It grows with what
// is written: most terminals never fill it.
type ring struct {
	kept []byte // the byte at offset n is at n % ringSize
	end  int64  // offset just after the last byte
}

func (r *ring) append(b []byte) {
	if extra := len(b) - ringSize; extra > 0 && len(r.kept) == ringSize {
		r.end += int64(extra)
		b = b[extra:]
	}
	for len(b) > 0 {
		n := min(len(b), ringSize-len(r.kept))
		if n > 0 {
			r.kept = append(r.kept, b[:n]...)
		} else {
			n = copy(r.kept[r.end%ringSize:], b)
		}
		b, r.end = b[n:], r.end+int64(n)
	}
}

// since copies what was written from offset on, or from the oldest kept byte when that is later; first
// is the offset of the first byte copied.
func (r *ring) since(offset int64) (first int64, missed []byte) {
	first = max(offset, r.end-int64(len(r.kept)))
	if first >= r.end {
		return r.end, nil
	}
	missed = make([]byte, 0, r.end-first)
	for at := first; at < r.end; at = first + int64(len(missed)) {
		start := at % ringSize
		stop := min(start+r.end-at, int64(len(r.kept)))
		missed = append(missed, r.kept[start:stop]...)
	}
	return first, missed
}
