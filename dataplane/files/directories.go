// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// parentMode is the mode of directories that are made only because something goes into them.
const parentMode = 0o755

// MakeDirectory makes the directory at path and those above it that are missing. The ones it makes
// get the attributes (mode 755 when there is none); those that exist stay as they are.
func MakeDirectory(path string, attributes Attributes) error {
	dir, made, err := makeDirectories(path)
	if err != nil {
		return err
	}
	dir.Close()
	if attributes.mode == unset {
		attributes.mode = parentMode
	}
	for i := len(made) - 1; i >= 0; i-- { // the deepest first: a mode may close the way
		if err := SetAttributes(made[i], attributes); err != nil {
			return err
		}
	}
	return nil
}

// makeDirectories is mkdir -p through no link. It returns the last directory, opened, and the paths
// of those it made, also when it fails.
func makeDirectories(path string) (*os.File, []string, error) {
	dir, err := openPath(path, unix.O_PATH|unix.O_DIRECTORY, followNothing)
	if !errors.Is(err, ErrNotFound) || path == "/" {
		return dir, nil, err
	}
	parent, made, err := makeDirectories(filepath.Dir(path))
	if err != nil {
		return nil, made, err
	}
	at := place{dir: parent, name: filepath.Base(path), path: path}
	defer at.close()
	err = unix.Mkdirat(at.fd(), at.name, parentMode)
	if err != nil && err != unix.EEXIST {
		return nil, made, explain(path, err)
	}
	if err == nil {
		made = append(made, path)
	}
	fd, err := unix.Openat(at.fd(), at.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, made, explain(path, err)
	}
	return os.NewFile(uintptr(fd), path), made, nil
}

// removeDirectories takes back what makeDirectories made, as far as it is still empty.
func removeDirectories(made []string) {
	for i := len(made) - 1; i >= 0; i-- {
		at, err := placeOf(made[i])
		if err != nil {
			return
		}
		err = unix.Unlinkat(at.fd(), at.name, unix.AT_REMOVEDIR)
		at.close()
		if err != nil {
			return
		}
	}
}
