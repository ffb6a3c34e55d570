// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"context"
	"io"
	"os"
)

// A Download is a plain file opened for reading.
type Download struct {
	// Size is how long the content is, or -1 for files that only the kernel's own end tells, such as
	// those in /proc.
	Size int64
	file *os.File
	head []byte // a small file is read at once: then its size is certain
}

// OpenDownload opens the file at path, following ordinary links. Close must be called.
func OpenDownload(path string) (*Download, error) {
	f, st, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	d := &Download{Size: st.size, file: f}
	if st.size <= smallFile {
		if err := d.readHead(); err != nil {
			f.Close()
			return nil, explain(path, err)
		}
	}
	return d, nil
}

// smallFile is the largest size that the kernel's made-up files claim.
const smallFile = 4096

// readHead finds out the true size of a small file: one in /sys claims more than it has, one in /proc
// claims nothing.
func (d *Download) readHead() error {
	head := make([]byte, smallFile+1)
	n, err := io.ReadFull(d.file, head)
	d.head = head[:n]
	switch err {
	case io.EOF, io.ErrUnexpectedEOF:
		d.Size = int64(n)
		return nil
	case nil:
		d.Size = -1
		if st, err := statFile(d.file); err == nil && st.size > smallFile {
			d.Size = st.size // it grew just now
		}
		return nil
	}
	return err
}

// Close closes the file.
func (d *Download) Close() error { return d.file.Close() }

// File gives the range for sendfile, or nothing when part of it is in memory already.
func (d *Download) File(r Range) (*io.LimitedReader, error) {
	if d.head != nil {
		return nil, nil
	}
	if _, err := d.file.Seek(r.Start, io.SeekStart); err != nil {
		return nil, explain(d.file.Name(), err)
	}
	return &io.LimitedReader{R: d.file, N: r.Length}, nil
}

// CopyRange writes a range of a file whose size is known.
func (d *Download) CopyRange(ctx context.Context, w io.Writer, r Range) error {
	if d.head != nil && d.Size <= int64(len(d.head)) {
		_, err := w.Write(d.head[r.Start : r.Start+r.Length])
		return err
	}
	_, err := Copy(ctx, w, io.NewSectionReader(d.file, r.Start, r.Length))
	return explain(d.file.Name(), err)
}

// CopyAll writes the content to its end, however long it turns out to be.
func (d *Download) CopyAll(ctx context.Context, w io.Writer) error {
	_, err := Copy(ctx, w, d.rest())
	return explain(d.file.Name(), err)
}

// CopyLines is CopyLines of the file.
func (d *Download) CopyLines(ctx context.Context, w io.Writer, first, limit int64) error {
	return explain(d.file.Name(), CopyLines(ctx, w, d.rest(), first, limit))
}

func (d *Download) rest() io.Reader {
	if d.head == nil {
		return d.file
	}
	return io.MultiReader(bytes.NewReader(d.head), d.file)
}
