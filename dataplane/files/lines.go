// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"context"
	"io"
)

// CopyLines copies limit lines of r to w (all for limit 0), starting with line first, counted from 1.
// They are joined by line feeds, with none after the last. However long a line is, only one buffer
// of it is held.
func CopyLines(ctx context.Context, w io.Writer, r io.Reader, first, limit int64) error {
	buf := buffers.Get().(*[BufferSize]byte)
	defer buffers.Put(buf)
	c := lineCopy{w: w, skip: first - 1, limit: limit}
	for {
		n, err := r.Read(buf[:])
		if werr := c.take(buf[:n]); werr != nil || c.isDone {
			return werr
		}
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

type lineCopy struct {
	w          io.Writer
	skip       int64 // lines still to pass over
	limit      int64 // 0: no limit
	ended      int64 // line ends seen among the lines wanted
	isOwingEnd bool  // a line feed was seen that is written only if more follows
	isDone     bool
}

func (c *lineCopy) take(data []byte) error {
	for c.skip > 0 {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return nil
		}
		c.skip--
		data = data[i+1:]
	}
	if len(data) == 0 {
		return nil
	}
	if c.isOwingEnd {
		if _, err := c.w.Write([]byte{'\n'}); err != nil {
			return err
		}
		c.isOwingEnd = false
	}
	if i := c.end(data); i >= 0 {
		data, c.isDone = data[:i], true
	} else if data[len(data)-1] == '\n' {
		data, c.isOwingEnd = data[:len(data)-1], true
	}
	_, err := c.w.Write(data)
	return err
}

// end is where in data the last line wanted ends, or -1.
func (c *lineCopy) end(data []byte) int {
	if c.limit == 0 {
		return -1
	}
	for at := 0; ; {
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			return -1
		}
		if c.ended++; c.ended == c.limit {
			return at + i
		}
		at += i + 1
	}
}
