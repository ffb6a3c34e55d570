// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"

	"opensandbox.io/dataplane/files"
)

func listDirectory(w http.ResponseWriter, r *fileRequest) error {
	path, err := r.queryPath()
	if err != nil {
		return err
	}
	depth := 1
	if text := r.URL.Query().Get("depth"); text != "" {
		if depth, err = strconv.Atoi(text); err != nil || depth < 0 {
			return failf(http.StatusBadRequest, CodeInvalidBody, "depth %q must be a number of levels, 0 or more", text)
		}
	}
	return writeInfos(w, func(visit func(files.Info) error) error {
		return files.List(r.Context(), path, depth, visit)
	})
}

func makeDirectories(w http.ResponseWriter, r *fileRequest) error {
	return eachPermission(w, r, files.MakeDirectory)
}

func removeDirectories(w http.ResponseWriter, r *fileRequest) error {
	given, err := r.queryPaths()
	if err != nil {
		return err
	}
	for _, g := range given {
		path, err := r.path(g)
		if err != nil {
			return err
		}
		if err := files.RemoveDirectory(r.Context(), path); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// A lateWriter buffers an answer whose end may still fail, and sends the header with its first piece.
type lateWriter struct {
	*bufio.Writer
	piece *latePiece
}

type latePiece struct {
	w           http.ResponseWriter
	contentType string
	isStarted   bool
}

func newLateWriter(w http.ResponseWriter, contentType string) lateWriter {
	piece := &latePiece{w: w, contentType: contentType}
	return lateWriter{bufio.NewWriterSize(piece, 64<<10), piece}
}

func (p *latePiece) Write(data []byte) (int, error) {
	p.start()
	return p.w.Write(data)
}

func (p *latePiece) start() {
	if !p.isStarted {
		p.isStarted = true
		p.w.Header().Set("Content-Type", p.contentType)
		p.w.WriteHeader(http.StatusOK)
	}
}

// fail is err when nothing was sent yet, and else cuts the answer.
func (l lateWriter) fail(err error) error {
	if l.piece.isStarted {
		return fmt.Errorf("%w: %w", errAborted, err)
	}
	return err
}

// finish sends what is left, also when that is nothing but the header.
func (l lateWriter) finish() error {
	l.piece.start()
	if err := l.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errAborted, err)
	}
	return nil
}
