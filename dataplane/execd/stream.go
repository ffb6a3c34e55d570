// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/journal"
)

// run is what a stream reports: a command, or one run in a session.
type run interface {
	Result() command.Result
}

// commandLines and sessionLines are how the two outputs of a run are sent.
func commandLines() [2]event.Lines { return [2]event.Lines{{Kind: event.Stdout}, {Kind: event.Stderr}} }

func sessionLines() [2]event.Lines {
	return [2]event.Lines{{Kind: event.Stdout, DropsEmpty: true}, {Kind: event.Stderr}}
}

// streamLines sends a run line by line, from its first byte to its end. A client that goes away ends
// the stream and not the run.
func streamLines(w http.ResponseWriter, r *http.Request, id string, running run, reader *journal.Reader, lines [2]event.Lines) {
	defer reader.Close()
	stream := event.NewStream(w)
	defer stream.Close()
	if stream.Send(event.AppendText(nil, event.Init, []byte(id), time.Now(), -1)) != nil {
		return
	}
	sendRemaining(r, stream, running, reader, lines, [2]int64{})
}

// resumeLines is streamLines for a client that lost its stream: sent has, for each output, the cursor
// of the last line that reached it. What one output wrote before its cursor is not sent again.
func (s *Server) resumeLines(w http.ResponseWriter, r *http.Request, id string, running run, output *journal.Journal, lines [2]event.Lines, sent [2]int64) {
	cursor := min(sent[0], sent[1])
	reader := output.Read(max(cursor-1, 0)) // from the line end before it: "\r" may be half of one
	defer reader.Close()
	stream := event.NewStream(w)
	defer stream.Close()
	stream.LimitWait(s.followerTimeout())
	frames := event.AppendText(nil, event.Init, []byte(id), time.Now(), cursor)
	if first := reader.Cursor(); first > cursor {
		frames = event.AppendGap(frames, first, time.Now())
	}
	if stream.Send(frames) == nil {
		sendRemaining(r, stream, running, reader, lines, sent)
	}
}

// sendRemaining sends what was not sent yet of a run, then its end.
func sendRemaining(r *http.Request, stream *event.Stream, running run, reader *journal.Reader, lines [2]event.Lines, sent [2]int64) {
	var frames []byte
	cursor := reader.Cursor()
	for {
		chunk, err := reader.Next(r.Context())
		if err != nil {
			if !errors.Is(err, io.EOF) {
				sendLost(r, stream, err)
				return
			}
			break
		}
		cursor = chunk.Offset + int64(len(chunk.Data))
		source := chunk.Source - 1
		known := min(max(sent[source]-chunk.Offset, 0), int64(len(chunk.Data)))
		lines[source].Skip(chunk.Data[:known])
		frames = lines[source].Append(frames[:0], chunk.Data[known:], chunk.At, cursor)
		if len(frames) > 0 && stream.Send(frames) != nil {
			return
		}
	}
	result := running.Result()
	frames = frames[:0]
	for i := range lines {
		frames = lines[i].Flush(frames, result.Ended, cursor)
	}
	_ = stream.Send(appendResult(frames, result)) // nobody is left to tell when it fails
}

// appendResult appends the terminal frame of a run.
func appendResult(frames []byte, result command.Result) []byte {
	if result.Succeeded() {
		return event.AppendComplete(frames, result.Ended.Sub(result.Started), result.Ended)
	}
	value := strconv.Itoa(result.ExitCode)
	if result.StartFailed {
		value = result.Reason
	}
	return event.AppendError(frames, event.Error{Name: "CommandExecError", Value: value, Traceback: []string{result.Reason}}, result.Ended)
}

// streamBytes replays a journal byte for byte from cursor on, then with follow goes on until the run
// ends. The terminal frame comes only when the run has ended.
func (s *Server) streamBytes(w http.ResponseWriter, r *http.Request, id string, running run, output *journal.Journal, cursor int64, follows bool) {
	reader := output.Read(cursor)
	defer reader.Close()
	stream := event.NewStream(w)
	defer stream.Close()
	stream.LimitWait(s.followerTimeout())
	frames := event.AppendText(nil, event.Init, []byte(id), time.Now(), cursor)
	if first := reader.Cursor(); first > cursor {
		frames = event.AppendGap(frames, first, time.Now())
	}
	next := func() (journal.Chunk, error) { return reader.Poll() }
	if follows {
		next = func() (journal.Chunk, error) { return reader.Next(r.Context()) }
	}
	for {
		if stream.Send(frames) != nil {
			return
		}
		chunk, err := next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				sendLost(r, stream, err)
				return
			}
			break
		}
		frames = appendBytes(frames[:0], chunk)
	}
	if output.IsSealed() {
		_ = stream.Send(appendResult(nil, running.Result())) // nobody is left to tell when it fails
	}
}

// sendLost ends a stream whose journal cannot be read on. To a client that has gone it says nothing.
func sendLost(r *http.Request, stream *event.Stream, err error) {
	if r.Context().Err() == nil {
		_ = stream.Send(event.AppendError(nil, event.Error{Name: "JournalError", Value: err.Error()}, time.Now()))
	}
}

// appendBytes appends a chunk exactly: as text when it is UTF-8, else in base64.
func appendBytes(frames []byte, chunk journal.Chunk) []byte {
	kind := event.Stdout
	if chunk.Source == journal.Stderr {
		kind = event.Stderr
	}
	end := chunk.Offset + int64(len(chunk.Data))
	if utf8.Valid(chunk.Data) {
		return event.AppendText(frames, kind, chunk.Data, chunk.At, end)
	}
	return event.AppendBase64(frames, kind, base64.StdEncoding.EncodeToString(chunk.Data), chunk.At, end)
}
