// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"io"
	"sync"
)

// BufferSize is how much is read or written at once. Smaller costs system calls, larger falls out of
// the processor's cache.
const BufferSize = 256 << 10

var buffers = sync.Pool{New: func() any { return new([BufferSize]byte) }}

// Copy copies exactly what r has to w, in large pieces, until ctx ends.
func Copy(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	buf := buffers.Get().(*[BufferSize]byte)
	defer buffers.Put(buf)
	var copied int64
	for {
		n, err := r.Read(buf[:])
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return copied, werr
			}
			copied += int64(n)
		}
		if err == io.EOF {
			return copied, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return copied, err
		}
	}
}
