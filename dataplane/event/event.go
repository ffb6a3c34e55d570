// SPDX-License-Identifier: Apache-2.0

// Package event is the stream in which a run is reported: one JSON object per frame, bare, ended by two line
// feeds, as the oldest clients expect.
package event

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// Types of events. A run is: init, any mix of the others, then one of error and execution_complete.
const (
	Init     = "init"
	Stdout   = "stdout"
	Stderr   = "stderr"
	Failure  = "error"
	Complete = "execution_complete"
	Ping     = "ping"
	Result   = "result" // a value or a display of code
	Count    = "execution_count"
	Gap      = "gap" // only in a replay: bytes the journal no longer has
)

// MaxFrame bounds an encoded frame: the smallest line buffer among the published clients is 4 MiB.
const MaxFrame = 4<<20 - 1024

// AppendText appends a frame whose payload is text, and with cursor >= 0 the journal offset just
// after it.
func AppendText(b []byte, kind string, text []byte, at time.Time, cursor int64) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","text":`...)
	b = AppendString(b, text)
	return appendEnd(b, at, cursor)
}

// AppendOutput appends text as it is, in as many frames as it takes.
func AppendOutput(b []byte, kind string, text []byte, at time.Time) []byte {
	for len(text) > 0 {
		n := fitting(text, maxText)
		b = AppendText(b, kind, text[:n], at, -1)
		text = text[n:]
	}
	return b
}

// AppendBase64 is AppendText for bytes that are not text.
func AppendBase64(b []byte, kind, encoded string, at time.Time, cursor int64) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","base64":"`...)
	b = append(b, encoded...)
	b = append(b, '"')
	return appendEnd(b, at, cursor)
}

// AppendGap tells that the journal's oldest byte is now at cursor; those before it are gone.
func AppendGap(b []byte, cursor int64, at time.Time) []byte {
	return appendEnd(append(b, `{"type":"gap"`...), at, cursor)
}

// AppendComplete appends the terminal frame of a run that succeeded after took.
func AppendComplete(b []byte, took time.Duration, at time.Time) []byte {
	b = append(b, `{"type":"execution_complete","execution_time":`...)
	b = strconv.AppendInt(b, took.Milliseconds(), 10)
	return appendEnd(b, at, -1)
}

func appendEnd(b []byte, at time.Time, cursor int64) []byte {
	if cursor >= 0 {
		b = append(b, `,"cursor":`...)
		b = strconv.AppendInt(b, cursor, 10)
	}
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, at.UnixMilli(), 10)
	return append(b, "}\n\n"...)
}

const hex = "0123456789abcdef"

// AppendString appends text as a JSON string on one line. Bytes that are not UTF-8 become U+FFFD.
// U+0085, U+2028 and U+2029 are escaped because some clients take them for line ends.
func AppendString(b, text []byte) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			b = append(b, text[start:i]...)
			b = appendEscaped(b, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			b = append(b, text[start:i]...)
			b = append(b, "\ufffd"...)
			start = i + 1
		} else if r == '\u0085' || r == '\u2028' || r == '\u2029' {
			b = append(b, text[start:i]...)
			b = append(b, '\\', 'u', hex[r>>12&0xf], hex[r>>8&0xf], hex[r>>4&0xf], hex[r&0xf])
			start = i + size
		}
		i += size
	}
	b = append(b, text[start:]...)
	return append(b, '"')
}

func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// encodedLen is how long AppendString makes text, without the quotes.
func encodedLen(text []byte) int {
	n := 0
	for i := 0; i < len(text); {
		size, encoded := encodedRune(text[i:])
		i += size
		n += encoded
	}
	return n
}

// fitting is the longest beginning of text, of whole characters, that AppendString makes at most
// limit bytes long.
func fitting(text []byte, limit int) int {
	i := 0
	for i < len(text) {
		size, encoded := encodedRune(text[i:])
		if limit -= encoded; limit < 0 {
			break
		}
		i += size
	}
	for n := i; n > i-utf8.UTFMax && n < len(text); n-- {
		if utf8.RuneStart(text[n]) { // the rest of a character may be yet to come
			return n
		}
	}
	return i
}

// encodedRune is the size of the first character of text, before and after encoding.
func encodedRune(text []byte) (size, encoded int) {
	switch c := text[0]; {
	case c >= utf8.RuneSelf:
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			return 1, 3
		case r == '\u0085' || r == '\u2028' || r == '\u2029':
			return size, 6
		}
		return size, size
	case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
		return 1, 2
	case c < ' ' || c == 0x7f:
		return 1, 6
	}
	return 1, 1
}
