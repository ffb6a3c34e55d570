// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A place is a name in an opened directory. Changes are made at a place, so that nobody can slip a
// link into the way after the path was checked.
type place struct {
	dir  *os.File
	name string
	path string
}

// placeOf opens the directory that path is in, through no link at all.
func placeOf(path string) (place, error) {
	parent, name := filepath.Dir(path), filepath.Base(path)
	if path == "/" {
		name = "."
	}
	dir, err := openPath(parent, unix.O_PATH|unix.O_DIRECTORY, followNothing)
	if err != nil {
		return place{}, err
	}
	return place{dir: dir, name: name, path: path}, nil
}

// makePlace is placeOf, but makes the directories on the way that are missing.
func makePlace(path string) (place, []string, error) {
	at, err := placeOf(path)
	if !errors.Is(err, ErrNotFound) {
		return at, nil, err
	}
	dir, made, err := makeDirectories(filepath.Dir(path))
	if err != nil {
		removeDirectories(made)
		return place{}, nil, err
	}
	return place{dir: dir, name: filepath.Base(path), path: path}, made, nil
}

func (p place) close()  { p.dir.Close() }
func (p place) fd() int { return int(p.dir.Fd()) }

// look opens what is at the place without following a link and without any effect on it.
func (p place) look() (*os.File, status, error) {
	fd, err := unix.Openat(p.fd(), p.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, status{}, explain(p.path, err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	st, err := statFile(f)
	if err != nil {
		f.Close()
		return nil, status{}, explain(p.path, err)
	}
	return f, st, nil
}

func (p place) stat() (status, error) {
	st, err := statAt(p.fd(), p.name, 0)
	return st, explain(p.path, err)
}

// openDirectory opens the directory at the place for reading.
func (p place) openDirectory() (*os.File, error) {
	fd, err := unix.Openat(p.fd(), p.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, explain(p.path, err)
	}
	return os.NewFile(uintptr(fd), p.path), nil
}
