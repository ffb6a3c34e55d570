// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"opensandbox.io/dataplane/files"
	"opensandbox.io/dataplane/process"
)

// maxID is the largest user or group id; the number above it means "nobody" to the kernel.
const maxID = 1<<32 - 2

// A fileRequest is a request about files, with who it is done as.
type fileRequest struct {
	*http.Request
	server   *Server
	identity *process.Identity // nil: the daemon's own
}

type fileHandler func(w http.ResponseWriter, r *fileRequest) error

// errAborted says that the answer was under way when it failed. The connection is cut, so that the
// client does not take what it got for the whole.
var errAborted = errors.New("the answer could not be completed")

// asCaller makes a fileHandler a handler. All of it is done as the identity in the path, if there is
// one.
func (s *Server) asCaller(h fileHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		request := &fileRequest{Request: r, server: s}
		var err error
		if r.PathValue("uid") == "" {
			err = h(w, request)
		} else {
			err = request.asIdentity(func() error { return h(w, request) })
		}
		if errors.Is(err, errAborted) {
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			drain(r.Body)
		}
		return fileError(err)
	}
}

func (r *fileRequest) asIdentity(work func() error) error {
	uid, err := parseIdentity("uid", r.PathValue("uid"))
	if err != nil {
		return err
	}
	gid, err := parseIdentity("gid", r.PathValue("gid"))
	if err != nil {
		return err
	}
	r.identity = process.UserIdentity(uid)
	if r.identity.GID != gid {
		r.identity = r.identity.WithGroup(gid)
	}
	return files.As(uid, gid, r.identity.Groups, work)
}

func parseIdentity(name, text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil || id > maxID || strings.HasPrefix(text, "+") {
		return 0, failf(http.StatusBadRequest, CodeInvalidBody, "%s %q must be a number from 0 to %d", name, text, uint32(maxID))
	}
	return uint32(id), nil
}

// path is the one way from a path a client gave to one that package files takes.
func (r *fileRequest) path(given string) (string, error) {
	expanded := given
	if strings.ContainsAny(given, "~$\x00") {
		var err error
		expanded, err = process.ExpandPath(given, r.server.Environ.For(r.identity, nil))
		if err != nil {
			return "", fmt.Errorf("%w, so it %w", err, files.ErrInvalidPath)
		}
	}
	return files.Absolute(expanded)
}

// queryPath is the query value path, expanded.
func (r *fileRequest) queryPath() (string, error) {
	given, err := r.queryPaths()
	if err != nil {
		return "", err
	}
	return r.path(given[0])
}

// queryPaths are all values of path as given. None, or an empty one, is an error.
func (r *fileRequest) queryPaths() ([]string, error) {
	given := r.URL.Query()["path"]
	if len(given) == 0 {
		return nil, failf(http.StatusBadRequest, CodeMissingQuery, "the query needs a path")
	}
	for _, g := range given {
		if g == "" {
			return nil, failf(http.StatusBadRequest, CodeMissingQuery, "path must not be empty")
		}
	}
	return given, nil
}

// maxDrain bounds what is read of a body that is refused. Most clients read the answer only after
// they sent everything.
const maxDrain = 8 << 20

func drain(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, maxDrain) // what fails here fails for the client as well
}
