// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"opensandbox.io/dataplane/files"
)

// downloadFile answers with a file: whole, a range of bytes, or some lines.
func downloadFile(w http.ResponseWriter, r *fileRequest) error {
	name, err := r.queryPath()
	if err != nil {
		return err
	}
	query := r.URL.Query()
	isLines := query.Has("offset") || query.Has("limit")
	rangeHeader := r.Header.Get("Range")
	if isLines && rangeHeader != "" {
		return failf(http.StatusBadRequest, CodeInvalidBody, "offset and limit count lines and Range counts bytes; send one of them")
	}
	first, err := positive(query, "offset", 1)
	if err != nil {
		return err
	}
	limit, err := positive(query, "limit", 0)
	if err != nil {
		return err
	}
	d, err := files.OpenDownload(name)
	if err != nil {
		return err
	}
	defer d.Close()
	w.Header().Set("Content-Disposition", attachment(path.Base(name)))
	switch {
	case isLines:
		return sendLines(w, r, d, first, limit)
	case d.Size < 0:
		return sendUnsized(w, r, d)
	}
	return sendBytes(w, r, d, rangeHeader)
}

// positive is a query value that counts from 1, or otherwise when it is not given.
func positive(query url.Values, name string, otherwise int64) (int64, error) {
	if !query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(query.Get(name), 10, 64)
	if err != nil || n < 1 {
		return 0, failf(http.StatusBadRequest, CodeInvalidBody, "%s %q must be a number of lines, 1 or more", name, query.Get(name))
	}
	return n, nil
}

// attachment is the Content-Disposition for a file name; RFC 5987 for one that is not plain ASCII.
func attachment(name string) string {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return "attachment; filename=\"download\"; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
		}
	}
	return `attachment; filename="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

func sendLines(w http.ResponseWriter, r *fileRequest, d *files.Download, first, limit int64) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	return abortOn(d.CopyLines(r.Context(), w, first, limit))
}

func sendUnsized(w http.ResponseWriter, r *fileRequest, d *files.Download) error {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	return abortOn(d.CopyAll(r.Context(), w))
}

func sendBytes(w http.ResponseWriter, r *fileRequest, d *files.Download, rangeHeader string) error {
	status, wanted := http.StatusOK, files.Range{Length: d.Size}
	if r.Header.Get("If-Range") != "" {
		rangeHeader = "" // there is no validator it could match, so the whole file is asked for
	}
	part, isRange, err := files.ParseRange(rangeHeader, d.Size)
	if err != nil {
		w.Header().Del("Content-Disposition")
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", d.Size))
		return failf(http.StatusRequestedRangeNotSatisfiable, CodeUnknown, "%v; the file has %d bytes", err, d.Size)
	}
	if isRange {
		status, wanted = http.StatusPartialContent, part
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Start, part.Start+part.Length-1, d.Size))
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Length", strconv.FormatInt(wanted.Length, 10))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	return abortOn(copyBytes(w, r, d, wanted))
}

// copyBytes lets the kernel send the file where it can, which is over TCP. A file that shrank leaves
// the answer short of its Content-Length, and net/http then cuts the connection.
func copyBytes(w http.ResponseWriter, r *fileRequest, d *files.Download, wanted files.Range) error {
	if _, isTCP := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); isTCP {
		file, err := d.File(wanted)
		if err != nil {
			return err
		}
		if file != nil {
			_, err = io.Copy(w, file)
			return err
		}
	}
	return d.CopyRange(r.Context(), w, wanted)
}

// abortOn makes a failure after the header cut the connection.
func abortOn(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errAborted, err)
	}
	return nil
}
