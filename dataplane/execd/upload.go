// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"opensandbox.io/dataplane/files"
)

const (
	maxMetadata = 64 << 10
	// maxWaiting bounds how many metadata parts may come before their files.
	maxWaiting = 10_000
)

// uploadFiles takes pairs of metadata and file. The files appear when the whole body was read and
// found good; a client that goes away in between changes nothing.
func uploadFiles(w http.ResponseWriter, r *fileRequest) error {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		return failf(http.StatusBadRequest, CodeInvalidFile, "the body must be multipart/form-data with pairs of the parts metadata and file")
	}
	parts, err := files.NewMultipart(r.Body, params["boundary"])
	if err != nil {
		return err
	}
	defer parts.Close()
	u := upload{request: r, parts: parts, files: files.NewUpload()}
	defer u.files.Close()
	if err := u.run(); err != nil {
		return err
	}
	if err := u.files.Commit(); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

type upload struct {
	request *fileRequest
	parts   *files.Multipart
	files   *files.Upload
	waiting []uploadTarget // metadata whose file has not come yet, in order
	count   int
}

type uploadTarget struct {
	path       string
	attributes files.Attributes
}

func (u *upload) run() error {
	for {
		part, err := u.parts.Next()
		if errors.Is(err, io.EOF) {
			return u.checkPairs()
		}
		if err != nil {
			return err
		}
		switch part.Name {
		case "metadata":
			err = u.takeMetadata()
		case "file":
			err = u.takeFile()
		}
		if err != nil {
			return err
		}
	}
}

func (u *upload) checkPairs() error {
	if len(u.waiting) > 0 {
		return failf(http.StatusBadRequest, CodeInvalidFile, "%d metadata parts have no file part; send one file after each metadata", len(u.waiting))
	}
	if u.count == 0 {
		return failf(http.StatusBadRequest, CodeInvalidFile, "the body has no file; send a part metadata and a part file for each")
	}
	return nil
}

func (u *upload) takeMetadata() error {
	if len(u.waiting) >= maxWaiting {
		return failf(http.StatusBadRequest, CodeInvalidFile, "more than %d metadata parts without a file; send the file after its metadata", maxWaiting)
	}
	text := boundedText{left: maxMetadata}
	if _, err := u.parts.WriteTo(&text); err != nil {
		return err
	}
	var metadata struct {
		Path string `json:"path"`
		permission
	}
	if err := json.Unmarshal(text.data, &metadata); err != nil {
		return badMetadata(fmt.Errorf("it is not the JSON expected: %w", err))
	}
	if metadata.Path == "" {
		return badMetadata(errors.New("path is missing"))
	}
	attributes, err := metadata.attributes()
	if err != nil {
		return badMetadata(err)
	}
	path, err := u.request.path(metadata.Path)
	if err != nil {
		return badMetadata(err)
	}
	u.waiting = append(u.waiting, uploadTarget{path, attributes})
	return nil
}

func badMetadata(err error) error {
	return failf(http.StatusBadRequest, CodeInvalidMetadata, `metadata: %v; send {"path": …, "mode": 644} and, if wanted, owner and group`, err)
}

func (u *upload) takeFile() error {
	if len(u.waiting) == 0 {
		return failf(http.StatusBadRequest, CodeInvalidFile, "a file part comes before its metadata; send metadata first")
	}
	target := u.waiting[0]
	u.waiting = u.waiting[1:]
	u.count++
	return u.files.Add(target.path, target.attributes, func(w io.Writer) error {
		_, err := u.parts.WriteTo(w)
		return err
	})
}

// boundedText keeps what is written to it, up to a bound.
type boundedText struct {
	data []byte
	left int
}

func (t *boundedText) Write(p []byte) (int, error) {
	if t.left -= len(p); t.left < 0 {
		return 0, badMetadata(fmt.Errorf("it is longer than %d bytes", maxMetadata))
	}
	t.data = append(t.data, p...)
	return len(p), nil
}
