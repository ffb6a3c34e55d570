// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/files"
)

// fileRoutes are the routes of files and directories, under prefix. With {uid} and {gid} in the
// prefix everything is done as that user.
func (s *Server) fileRoutes(prefix string, route func(string, handler)) {
	for pattern, h := range map[string]fileHandler{
		"GET /files/info":           fileInfo,
		"DELETE /files":             removeFiles,
		"POST /files/permissions":   setPermissions,
		"POST /files/mv":            moveFiles,
		"GET /files/search":         searchFiles,
		"POST /files/replace":       replaceInFiles,
		"POST /files/upload":        uploadFiles,
		"GET /files/download":       downloadFile,
		"GET /files/checksum":       checksumFiles,
		"GET /files/watch":          watchFiles,
		"GET /directories/list":     listDirectory,
		"POST /directories":         makeDirectories,
		"DELETE /directories":       removeDirectories,
		"GET /directories/archive":  archiveDirectory,
		"POST /directories/archive": extractArchive,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		route(method+" "+prefix+path, s.asCaller(h))
	}
}

// fileFaults says how each fault of package files is answered, and what the client can do next.
var fileFaults = []struct {
	fault  error
	status int
	code   string
	advice string
}{
	{files.ErrNotFound, http.StatusNotFound, CodeFileNotFound, "check the path with GET /directories/list"},
	{files.ErrIsDirectory, http.StatusBadRequest, CodeInvalidFile, "name a file, or use the /directories routes"},
	{files.ErrNotDirectory, http.StatusBadRequest, CodeInvalidFile, "name a directory, or use the /files routes"},
	{files.ErrMagicLink, http.StatusBadRequest, CodeInvalidFile, "use the path of the file itself"},
	{files.ErrSymlink, http.StatusBadRequest, CodeInvalidFile, "use the path it leads to"},
	{files.ErrSpecial, http.StatusBadRequest, CodeInvalidFile, "only plain files can be read and written here; use POST /command for others"},
	{files.ErrExists, http.StatusInternalServerError, CodeRuntime, "choose another path or remove it first"},
	{files.ErrInvalidPath, http.StatusBadRequest, CodeInvalidFile, "give another path"},
	{files.ErrMountPoint, http.StatusInternalServerError, CodeRuntime, "it cannot be removed or moved; name what is in it"},
	{files.ErrPermission, http.StatusInternalServerError, CodeRuntime, "use another path or another identity"},
	{files.ErrInvalidMode, http.StatusBadRequest, CodeInvalidBody, "give at most four octal digits"},
	{files.ErrUnknownOwner, http.StatusBadRequest, CodeInvalidBody, "use a name from the sandbox's user database, or a number"},
	{files.ErrInvalidPattern, http.StatusBadRequest, CodeInvalidBody, "close every [ and end with no single backslash"},
	{files.ErrMultipart, http.StatusBadRequest, CodeInvalidContent, "send the whole body again as multipart/form-data"},
	{files.ErrArchive, http.StatusBadRequest, CodeInvalidContent, "send a complete tar stream, plain or gzip"},
	{files.ErrArchiveEntry, http.StatusBadRequest, CodeInvalidFile, "make the archive without this entry"},
	{files.ErrAlgorithm, http.StatusBadRequest, CodeInvalidBody, "the default is sha256"},
	{files.ErrTooDeep, http.StatusInternalServerError, CodeRuntime, "name a directory further down"},
	{files.ErrTooMany, http.StatusInternalServerError, CodeRuntime, "split the request"},
	{files.ErrIdentity, http.StatusInternalServerError, CodeRuntime, "use an id this sandbox has, or the route without identity"},
	{fs.ErrPermission, http.StatusInternalServerError, CodeRuntime, "use another path or another identity"},
	{unix.EROFS, http.StatusInternalServerError, CodeRuntime, "write somewhere else"},
	{unix.ENOSPC, http.StatusInternalServerError, CodeRuntime, "remove something first"},
	{unix.EDQUOT, http.StatusInternalServerError, CodeRuntime, "remove something first"},
}

// fileError is the answer for a failed file operation. An answer chosen already stays.
func fileError(err error) error {
	var api *apiError
	if err == nil || errors.As(err, &api) {
		return err
	}
	for _, f := range fileFaults {
		if errors.Is(err, f.fault) {
			return failf(f.status, f.code, "%v; %s", err, f.advice)
		}
	}
	return failf(http.StatusInternalServerError, CodeRuntime, "%v", err)
}

func fileInfo(w http.ResponseWriter, r *fileRequest) error {
	given, err := r.queryPaths()
	if err != nil {
		return err
	}
	names := files.NewNames()
	infos := make([]any, len(given))
	for i, g := range given {
		path, err := r.path(g)
		if err != nil {
			return err
		}
		if infos[i], err = files.Stat(path, names); err != nil {
			return err
		}
	}
	return writeByPath(w, given, infos)
}

// writeByPath answers with an object that has one member for each path, in the order of the request.
func writeByPath(w http.ResponseWriter, given []string, values []any) error {
	body := []byte{'{'}
	answered := make(map[string]bool, len(given))
	for i, g := range given {
		if answered[g] {
			continue
		}
		answered[g] = true
		value, err := json.Marshal(values[i])
		if err != nil {
			return err
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = event.AppendString(body, []byte(g))
		body = append(append(body, ':'), value...)
	}
	writeJSON(w, http.StatusOK, json.RawMessage(append(body, '}')))
	return nil
}

func removeFiles(w http.ResponseWriter, r *fileRequest) error {
	given, err := r.queryPaths()
	if err != nil {
		return err
	}
	for _, g := range given {
		path, err := r.path(g)
		if err != nil {
			return err
		}
		err = files.Remove(path)
		if errors.Is(err, files.ErrIsDirectory) {
			return failf(http.StatusInternalServerError, CodeRuntime, "%v; use DELETE /directories", err)
		}
		if err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// permission is mode and owner as requests give them.
type permission struct {
	Mode  *int    `json:"mode"`
	Owner *string `json:"owner"`
	Group *string `json:"group"`
}

func (p permission) attributes() (files.Attributes, error) {
	return files.NewAttributes(orZero(p.Mode), orZero(p.Owner), orZero(p.Group))
}

func orZero[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// eachPermission reads a body {path: permission} and calls do for each path, in order of the paths.
// The whole body is checked before the first call.
func eachPermission(w http.ResponseWriter, r *fileRequest, do func(path string, attributes files.Attributes) error) error {
	var body map[string]permission
	if err := readJSON(w, r.Request, &body); err != nil {
		return err
	}
	if body == nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, `the body is null; send {"/path": {"mode": 755}}`)
	}
	given := slices.Sorted(maps.Keys(body))
	paths := make([]string, len(given))
	attributes := make([]files.Attributes, len(given))
	for i, g := range given {
		var err error
		if body[g].Mode == nil {
			return failf(http.StatusBadRequest, CodeInvalidBody, "%s: mode is missing; send 0 to leave it as it is", g)
		}
		if attributes[i], err = body[g].attributes(); err != nil {
			return err
		}
		if paths[i], err = r.path(g); err != nil {
			return err
		}
	}
	for i, path := range paths {
		if err := do(path, attributes[i]); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func setPermissions(w http.ResponseWriter, r *fileRequest) error {
	return eachPermission(w, r, files.SetAttributes)
}

func moveFiles(w http.ResponseWriter, r *fileRequest) error {
	var body []struct {
		Source string `json:"src"`
		Dest   string `json:"dest"`
	}
	if err := readJSON(w, r.Request, &body); err != nil {
		return err
	}
	if body == nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, `the body is null; send [{"src": "/a", "dest": "/b"}]`)
	}
	for i, move := range body {
		if move.Source == "" || move.Dest == "" {
			return failf(http.StatusBadRequest, CodeInvalidBody, "entry %d needs src and dest", i)
		}
	}
	for _, move := range body {
		source, err := r.path(move.Source)
		if err != nil {
			return err
		}
		dest, err := r.path(move.Dest)
		if err != nil {
			return err
		}
		if err := files.Move(r.Context(), source, dest); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func searchFiles(w http.ResponseWriter, r *fileRequest) error {
	path, err := r.queryPath()
	if err != nil {
		return err
	}
	pattern := r.URL.Query().Get("pattern")
	if pattern == "" {
		pattern = "**"
	}
	return writeInfos(w, func(visit func(files.Info) error) error {
		return files.Search(r.Context(), path, pattern, visit)
	})
}

func replaceInFiles(w http.ResponseWriter, r *fileRequest) error {
	var body map[string]struct {
		Old string `json:"old"`
		New string `json:"new"`
	}
	verbose, err := boolQuery(r.Request, "verbose", false)
	if err != nil {
		return err
	}
	if err := readJSON(w, r.Request, &body); err != nil {
		return err
	}
	if body == nil {
		return failf(http.StatusBadRequest, CodeInvalidBody, `the body is null; send {"/path": {"old": "a", "new": "b"}}`)
	}
	given := slices.Sorted(maps.Keys(body))
	for _, g := range given {
		if body[g].Old == "" {
			return failf(http.StatusBadRequest, CodeInvalidBody, "%s: old must not be empty", g)
		}
	}
	type replacement struct {
		Count int `json:"replacedCount"`
	}
	counts := make(map[string]replacement, len(given))
	for _, g := range given {
		path, err := r.path(g)
		if err != nil {
			return err
		}
		count, err := files.Replace(r.Context(), path, []byte(body[g].Old), []byte(body[g].New))
		if err != nil {
			return err
		}
		counts[g] = replacement{count}
	}
	if !verbose {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	writeJSON(w, http.StatusOK, counts)
	return nil
}

func checksumFiles(w http.ResponseWriter, r *fileRequest) error {
	given, err := r.queryPaths()
	if err != nil {
		return err
	}
	algorithm := r.URL.Query().Get("algorithm")
	if algorithm == "" {
		algorithm = "sha256"
	}
	sums := make([]any, len(given))
	for i, g := range given {
		path, err := r.path(g)
		if err != nil {
			return err
		}
		if sums[i], err = files.ChecksumOf(r.Context(), path, strings.ToLower(algorithm)); err != nil {
			return err
		}
	}
	return writeByPath(w, given, sums)
}

// writeInfos streams a JSON array of what produce visits: a tree may be larger than memory. The
// header goes out with the first full buffer, so an early error is still an error answer.
func writeInfos(w http.ResponseWriter, produce func(visit func(files.Info) error) error) error {
	out := newLateWriter(w, "application/json")
	separator := byte('[')
	err := produce(func(info files.Info) error {
		out.WriteByte(separator) // the writer keeps its first error for Flush
		separator = ','
		element, err := json.Marshal(info)
		if err != nil {
			return err
		}
		_, err = out.Write(element)
		return err
	})
	if err != nil {
		return out.fail(err)
	}
	if separator == '[' {
		out.WriteByte('[')
	}
	out.WriteByte(']')
	return out.finish()
}
