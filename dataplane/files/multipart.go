// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/textproto"
)

const (
	maxPartHeader = 16 << 10
	maxPadding    = 128      // blanks a sender may put behind a boundary
	maxAround     = 64 << 10 // text before the first and behind the last boundary, which means nothing
)

// Multipart reads multipart/form-data as a stream. Unlike the standard library's reader it hands out
// whole buffers, which is what makes a large upload as fast as the disk.
type Multipart struct {
	source     io.Reader
	pooled     *[BufferSize]byte
	start, end int    // what is read and not yet handed out is pooled[start:end]
	delimiter  []byte // CRLF, two dashes and the boundary
	isInPart   bool
	isOver     bool
}

// A Part is one part of the body, known by the name of its form field.
type Part struct {
	Name, FileName string
}

// NewMultipart reads parts divided by boundary from source. Close must be called.
func NewMultipart(source io.Reader, boundary string) (*Multipart, error) {
	if boundary == "" || len(boundary) > 70 {
		return nil, malformed("the boundary must have 1 to 70 characters")
	}
	m := &Multipart{source: source, delimiter: []byte("\r\n--" + boundary)}
	m.pooled = buffers.Get().(*[BufferSize]byte)
	m.end = copy(m.pooled[:], "\r\n") // the first boundary stands at the start of a line, too
	if _, err := m.copyPart(&boundedDiscard{maxAround}); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMultipart, fmt.Sprintf(format, args...))
}

// Close gives the buffer back. It does not close the source.
func (m *Multipart) Close() {
	if m.pooled != nil {
		buffers.Put(m.pooled)
		m.pooled = nil
	}
}

// Next goes to the next part, passing over what is left of this one. After the last, and after the
// end of the source, it returns io.EOF.
func (m *Multipart) Next() (Part, error) {
	if m.isInPart {
		if _, err := m.copyPart(io.Discard); err != nil {
			return Part{}, err
		}
	}
	if m.isOver {
		return Part{}, m.finish()
	}
	header, err := m.readHeader()
	if err != nil {
		return Part{}, err
	}
	m.isInPart = true
	return parsePart(header)
}

// WriteTo copies the rest of the current part.
func (m *Multipart) WriteTo(w io.Writer) (int64, error) {
	if !m.isInPart {
		return 0, nil
	}
	return m.copyPart(w)
}

func (m *Multipart) copyPart(w io.Writer) (copied int64, err error) {
	write := func(n int) error {
		if n == 0 {
			return nil
		}
		_, err := w.Write(m.pooled[m.start : m.start+n])
		m.start += n
		copied += int64(n)
		return err
	}
	for passed := 0; ; { // unread bytes known to hold no boundary
		unread := m.pooled[m.start:m.end]
		found := bytes.Index(unread[passed:], m.delimiter)
		at := passed + found
		if found < 0 {
			at = len(unread) - m.partialDelimiter(unread)
		} else if length, isBoundary := boundaryEnd(unread[at+len(m.delimiter):]); isBoundary {
			err := write(at)
			m.start += len(m.delimiter) + length
			m.isOver = length == len(lastMark) && bytes.HasSuffix(m.pooled[:m.start], lastMark)
			m.isInPart = false
			return copied, err
		} else if length > 0 {
			passed = at + len(m.delimiter) // it only looked like a boundary
			continue
		}
		if err := write(at); err != nil {
			return copied, err
		}
		if err := m.fill(); err != nil {
			return copied, err
		}
		passed = 0
	}
}

var lastMark = []byte("--")

// boundaryEnd looks at what follows a delimiter: two dashes end the body, blanks and a line end start
// a part. It says how long that is; with anything else it was no boundary, and with length 0 more
// must be read to know.
func boundaryEnd(after []byte) (length int, isBoundary bool) {
	if len(after) >= 2 && bytes.HasPrefix(after, lastMark) {
		return 2, true
	}
	for i := 0; i+1 < len(after); i++ {
		switch {
		case after[i] == '\r' && after[i+1] == '\n':
			return i + 2, true
		case after[i] != ' ' && after[i] != '\t' || i >= maxPadding:
			return i + 1, false
		}
	}
	return 0, false
}

// partialDelimiter is how many bytes at the end of data may be the start of the delimiter.
func (m *Multipart) partialDelimiter(data []byte) int {
	tail := data[max(0, len(data)-len(m.delimiter)+1):]
	for {
		i := bytes.IndexByte(tail, '\r')
		if i < 0 {
			return 0
		}
		if tail = tail[i:]; bytes.HasPrefix(m.delimiter, tail) {
			return len(tail)
		}
		tail = tail[1:]
	}
}

// need makes at least n unread bytes available.
func (m *Multipart) need(n int) error {
	for m.end-m.start < n {
		if err := m.fill(); err != nil {
			return err
		}
	}
	return nil
}

// fill reads more. The end of the source before the last boundary is an error.
func (m *Multipart) fill() error {
	if m.start > 0 {
		m.end = copy(m.pooled[:], m.pooled[m.start:m.end])
		m.start = 0
	}
	n, err := m.source.Read(m.pooled[m.end:])
	m.end += n
	if n > 0 || err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return malformed("it ends before its last boundary")
	}
	return malformed("it was cut off: %v", err)
}

var blankLine = []byte("\r\n\r\n")

// readHeader takes the header of a part, with the blank line behind it.
func (m *Multipart) readHeader() ([]byte, error) {
	if err := m.need(2); err != nil {
		return nil, err
	}
	if string(m.pooled[m.start:m.start+2]) == "\r\n" {
		return nil, malformed("a part has no header")
	}
	for {
		unread := m.pooled[m.start:m.end]
		if i := bytes.Index(unread, blankLine); i >= 0 && i <= maxPartHeader {
			m.start += i + len(blankLine)
			return unread[:i+len(blankLine)], nil
		}
		if len(unread) > maxPartHeader {
			return nil, malformed("the header of a part is longer than %d bytes", maxPartHeader)
		}
		if err := m.fill(); err != nil {
			return nil, err
		}
	}
}

func parsePart(header []byte) (Part, error) {
	fields, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(header))).ReadMIMEHeader()
	if err != nil {
		return Part{}, malformed("the header of a part cannot be read: %v", err)
	}
	_, params, err := mime.ParseMediaType(fields.Get("Content-Disposition"))
	if err != nil {
		return Part{}, malformed("a part has no usable Content-Disposition: %v", err)
	}
	return Part{Name: params["name"], FileName: params["filename"]}, nil
}

// finish reads what is behind the last boundary, so that a body that was cut off there is noticed.
func (m *Multipart) finish() error {
	left := maxAround
	for {
		n, err := m.source.Read(m.pooled[:])
		if left -= n; left < 0 {
			return malformed("there is too much behind the last boundary")
		}
		if err == io.EOF {
			return io.EOF
		}
		if err != nil {
			return malformed("it was cut off: %v", err)
		}
	}
}

// boundedDiscard forgets what is written to it, up to a bound.
type boundedDiscard struct{ left int }

func (d *boundedDiscard) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, malformed("there is too much before the first boundary")
	}
	return len(p), nil
}
