// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"net/http"

	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/journal"
)

// commandOutput replays the output of a command or of a session's latest run: byte for byte, or line
// by line as its first stream did.
func (s *Server) commandOutput(w http.ResponseWriter, r *http.Request) error {
	wanted, err := parseOutputRequest(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if cmd, unknown := s.Commands.Get(id); unknown == nil {
		wanted.stream(s, w, r, id, cmd, cmd.Journal, commandLines())
		return nil
	}
	latest, err := s.Sessions.LatestRun(id)
	if err != nil {
		return failf(http.StatusNotFound, CodeInvalidBody, "no command and no session that has run anything has the id %q", id)
	}
	wanted.stream(s, w, r, id, latest, latest.Journal, sessionLines())
	return nil
}

// outputRequest is what a client that comes back asks for.
type outputRequest struct {
	cursor  int64
	follows bool
	inLines bool
	sent    [2]int64 // of stdout and stderr, when in lines
}

func parseOutputRequest(r *http.Request) (wanted outputRequest, err error) {
	if wanted.cursor, err = cursorOf(r, "cursor", 0); err != nil {
		return wanted, err
	}
	if wanted.follows, err = boolQuery(r, "follow", true); err != nil {
		return wanted, err
	}
	if wanted.inLines, err = boolQuery(r, "lines", false); err != nil {
		return wanted, err
	}
	for i, name := range []string{event.Stdout, event.Stderr} {
		if wanted.sent[i], err = cursorOf(r, name, wanted.cursor); err != nil {
			return wanted, err
		}
	}
	if wanted.inLines && !wanted.follows {
		return wanted, failf(http.StatusBadRequest, CodeInvalidBody, "lines are followed to the end: leave out follow=false, or lines")
	}
	return wanted, nil
}

func (o outputRequest) stream(s *Server, w http.ResponseWriter, r *http.Request, id string, running run, output *journal.Journal, lines [2]event.Lines) {
	if o.inLines {
		s.resumeLines(w, r, id, running, output, lines, o.sent)
	} else {
		s.streamBytes(w, r, id, running, output, o.cursor, o.follows)
	}
}
