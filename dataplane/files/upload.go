// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxUploadDirectories bounds the descriptors one upload holds open, one for each directory.
const maxUploadDirectories = 1000

// An Upload writes any number of files that appear together at the end, or not at all.
type Upload struct {
	drafts      []*draft
	directories map[string]*os.File
	made        []string // directories that did not exist before
}

// NewUpload starts an upload. Close must be called.
func NewUpload() *Upload {
	return &Upload{directories: map[string]*os.File{}}
}

// Add takes the content of one file from write, which is given where to put it.
func (u *Upload) Add(path string, attributes Attributes, write func(io.Writer) error) error {
	at, err := u.place(path)
	if err != nil {
		return err
	}
	d, err := newDraft(at, attributes)
	if err != nil {
		return err
	}
	u.drafts = append(u.drafts, d)
	if err := write(d.file); err != nil {
		return explain(path, err)
	}
	return d.finish()
}

func (u *Upload) place(path string) (place, error) {
	if path == "/" {
		return place{}, fmt.Errorf("/ %w", ErrIsDirectory)
	}
	parent := filepath.Dir(path)
	if dir, ok := u.directories[parent]; ok {
		return place{dir: dir, name: filepath.Base(path), path: path}, nil
	}
	if len(u.directories) >= maxUploadDirectories {
		return place{}, fmt.Errorf("%w: an upload goes into at most %d directories", ErrTooMany, maxUploadDirectories)
	}
	at, made, err := makePlace(path)
	if err != nil {
		return place{}, err
	}
	u.made = append(u.made, made...)
	u.directories[parent] = at.dir
	return at, nil
}

// Commit makes all files appear. When one cannot, those before it stay.
func (u *Upload) Commit() error {
	for _, d := range u.drafts {
		if err := d.commit(); err != nil {
			return err
		}
	}
	u.made = nil
	return nil
}

// Close takes back what was not committed.
func (u *Upload) Close() {
	for _, d := range u.drafts {
		d.discard()
	}
	for _, dir := range u.directories {
		dir.Close()
	}
	removeDirectories(u.made)
}
