// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// Replace replaces every occurrence of before in the file at path by after and says how many there
// were. Mode and owner stay; without an occurrence the file is not touched.
func Replace(ctx context.Context, path string, before, after []byte) (int, error) {
	at, err := placeOf(path)
	if errors.Is(err, ErrNotDirectory) {
		err = fmt.Errorf("%s: %w", path, ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	defer at.close()
	st, err := at.stat()
	if err != nil {
		return 0, err
	}
	if st.isLink() {
		return 0, explainLink(path, followNothing)
	}
	if err := st.checkRegular(path); err != nil {
		return 0, err
	}
	source, _, err := openRegularAt(at.fd(), at.name, path, followNothing)
	if err != nil {
		return 0, err
	}
	defer source.Close()
	d, err := newDraft(at, KeepAttributes())
	if err != nil {
		return 0, err
	}
	defer d.discard()
	count, err := replaceAll(ctx, d.file, source, before, after)
	if err != nil || count == 0 {
		return 0, explain(path, err)
	}
	if err := d.finish(); err != nil {
		return 0, err
	}
	return count, d.commit()
}

// replaceAll copies r to w with every before replaced. It holds one buffer, and as much more as
// before is long.
func replaceAll(ctx context.Context, w io.Writer, r io.Reader, before, after []byte) (count int, err error) {
	out := bufio.NewWriterSize(w, BufferSize)
	buf := make([]byte, BufferSize+2*len(before))
	kept := 0 // bytes at the start of buf that may begin an occurrence
	for {
		n, readErr := r.Read(buf[kept:])
		data := buf[:kept+n]
		for {
			i := bytes.Index(data, before)
			if i < 0 {
				break
			}
			count++
			out.Write(data[:i]) // bufio keeps the first error for Flush
			out.Write(after)
			data = data[i+len(before):]
		}
		if readErr == io.EOF {
			out.Write(data)
			return count, out.Flush()
		}
		if readErr == nil {
			readErr = ctx.Err()
		}
		if readErr != nil {
			return count, readErr
		}
		whole := max(0, len(data)-len(before)+1)
		if _, err := out.Write(data[:whole]); err != nil {
			return count, err
		}
		kept = copy(buf, data[whole:])
	}
}
