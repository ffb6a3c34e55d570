// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"time"
)

// maxText is how long the encoded text of one frame may get before a line is split over several.
const maxText = MaxFrame - 256

// Lines turns the bytes of one output into frames, one for each line, without its end. A line ends
// at "\n", "\r" or "\r\n".
type Lines struct {
	Kind       string // Stdout or Stderr
	DropsEmpty bool   // otherwise an empty line is the text "\n"

	partial []byte // of a line whose end has not come
	encoded int    // at least the length of partial in a frame
	afterCR bool   // a "\n" now belongs to the line that "\r" ended
}

// Skip passes over data that was sent before. It must end where a frame did.
func (l *Lines) Skip(data []byte) {
	if len(data) > 0 {
		l.afterCR = data[len(data)-1] == '\r'
	}
}

// Append appends the frames of the lines that data completes. end is the cursor after data.
func (l *Lines) Append(frames, data []byte, at time.Time, end int64) []byte {
	for len(data) > 0 {
		if l.afterCR && data[0] == '\n' {
			l.afterCR = false
			data = data[1:]
			continue
		}
		l.afterCR = false
		i := bytes.IndexByte(data, '\n')
		if r := bytes.IndexByte(data[:max(i, 0)], '\r'); i >= 0 && r >= 0 {
			i = r
		} else if i < 0 {
			i = bytes.IndexByte(data, '\r')
		}
		if i < 0 {
			l.hold(data)
			return l.split(frames, at, end)
		}
		line := data[:i]
		if len(l.partial) > 0 {
			l.hold(line)
			frames = l.split(frames, at, end-int64(len(data)-i))
			line = l.partial
		}
		l.afterCR = data[i] == '\r'
		data = data[i+1:]
		if l.afterCR && len(data) > 0 && data[0] == '\n' {
			l.afterCR = false
			data = data[1:]
		}
		frames = l.appendLine(frames, line, at, end-int64(len(data)))
		l.reset()
	}
	return frames
}

// Flush appends the frame of a last line that had no end.
func (l *Lines) Flush(frames []byte, at time.Time, end int64) []byte {
	if len(l.partial) > 0 {
		frames = AppendText(frames, l.Kind, l.partial, at, end)
	}
	l.partial, l.encoded = nil, 0
	return frames
}

func (l *Lines) hold(part []byte) {
	l.partial = append(l.partial, part...)
	l.encoded += encodedLen(part)
}

func (l *Lines) appendLine(frames, line []byte, at time.Time, cursor int64) []byte {
	if len(line) > 0 {
		return AppendText(frames, l.Kind, line, at, cursor)
	}
	if l.DropsEmpty {
		return frames
	}
	return AppendText(frames, l.Kind, []byte("\n"), at, cursor)
}

// split sends the beginning of a line that is too long for one frame, as late as possible. end is
// the cursor after what partial holds.
func (l *Lines) split(frames []byte, at time.Time, end int64) []byte {
	if l.encoded > maxText { // characters cut between two pieces were counted too high
		l.encoded = encodedLen(l.partial)
	}
	for l.encoded > maxText {
		n := fitting(l.partial, maxText)
		frames = AppendText(frames, l.Kind, l.partial[:n], at, end-int64(len(l.partial)-n))
		l.partial = append(l.partial[:0], l.partial[n:]...)
		l.encoded = encodedLen(l.partial)
	}
	return frames
}

// reset keeps a small buffer for the next line and gives a large one away.
func (l *Lines) reset() {
	if cap(l.partial) > 64<<10 {
		l.partial = nil
	}
	l.partial, l.encoded = l.partial[:0], 0
}
