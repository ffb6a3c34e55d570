// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"net/http"
	"path"

	"opensandbox.io/dataplane/files"
)

// archiveDirectory sends the content of a directory as a tar stream.
func archiveDirectory(w http.ResponseWriter, r *fileRequest) error {
	name, err := r.queryPath()
	if err != nil {
		return err
	}
	dir, err := files.OpenDirectory(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Disposition", attachment(path.Base(name)+".tar"))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	return abortOn(files.Archive(r.Context(), w, dir))
}

// extractArchive unpacks the body, a tar stream, into a directory. A client that goes away leaves
// what was unpacked until then, and no part of a file.
func extractArchive(w http.ResponseWriter, r *fileRequest) error {
	path, err := r.queryPath()
	if err != nil {
		return err
	}
	if err := files.Extract(r.Context(), path, r.Body); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
