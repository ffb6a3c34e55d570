// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// removeBatch bounds how many names are held in memory while a directory is emptied.
	removeBatch = 4096
	// removeDepth bounds how many levels hold a descriptor open; deeper ones are first moved up.
	removeDepth = 64
)

// Remove removes the file or link at path. One that is not there is no error; a directory is.
func Remove(path string) error {
	at, err := placeOf(path)
	if err != nil {
		return exceptMissing(err)
	}
	defer at.close()
	err = unix.Unlinkat(at.fd(), at.name, 0)
	if err == unix.EPERM || err == unix.EINVAL { // what some file systems say of a directory
		if st, statErr := at.stat(); statErr == nil && st.isDirectory() {
			err = unix.EISDIR
		}
	}
	return exceptMissing(explain(path, err))
}

// exceptMissing forgives that something is not there, or that what it would be in is a file.
func exceptMissing(err error) error {
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotDirectory) {
		return nil
	}
	return err
}

// RemoveDirectory removes the directory at path and all in it, following no link and entering no
// other mounted file system. One that is not there is no error.
func RemoveDirectory(ctx context.Context, path string) error {
	if path == "/" {
		return fmt.Errorf("/ %w", ErrMountPoint)
	}
	at, err := placeOf(path)
	if err != nil {
		return exceptMissing(err)
	}
	defer at.close()
	st, err := at.stat()
	if err != nil {
		return exceptMissing(err)
	}
	if !st.isDirectory() {
		return fmt.Errorf("%s: %w", path, ErrNotDirectory)
	}
	parent, err := statFile(at.dir)
	if err != nil {
		return explain(path, err)
	}
	if st.isMountRoot || st.dev != parent.dev {
		return fmt.Errorf("%s %w", path, ErrMountPoint)
	}
	return removeTree(ctx, at, st.dev)
}

func removeTree(ctx context.Context, at place, dev uint64) error {
	top, err := at.openDirectory()
	if err != nil {
		return err
	}
	defer top.Close()
	r := remover{ctx: ctx, top: top, dev: dev}
	for isDone := false; !isDone; { // again as long as deep levels were moved up
		r.movedUp = false
		if _, err := top.Seek(0, io.SeekStart); err != nil {
			return explain(at.path, err)
		}
		if err := r.empty(top, 1); err != nil {
			return err
		}
		isDone = !r.movedUp
	}
	return exceptMissing(explain(at.path, unix.Unlinkat(at.fd(), at.name, unix.AT_REMOVEDIR)))
}

type remover struct {
	ctx     context.Context
	top     *os.File
	dev     uint64
	movedUp bool
}

// empty removes all that is in dir. It starts reading again after each batch, because removing
// disturbs the reading.
func (r *remover) empty(dir *os.File, level int) error {
	for {
		names, err := dir.Readdirnames(removeBatch)
		if err == io.EOF || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return explain(dir.Name(), err)
		}
		for _, name := range names {
			if err := r.remove(place{dir: dir, name: name, path: join(dir.Name(), name)}, level); err != nil {
				return err
			}
		}
		if r.movedUp && dir == r.top {
			return nil // the caller starts again: what was moved here must not be moved twice
		}
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return explain(dir.Name(), err)
		}
	}
}

func (r *remover) remove(at place, level int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	err := unix.Unlinkat(at.fd(), at.name, 0)
	if err != unix.EISDIR && err != unix.EPERM {
		return exceptMissing(explain(at.path, err))
	}
	st, statErr := at.stat()
	if statErr != nil {
		return exceptMissing(statErr)
	}
	if !st.isDirectory() {
		return explain(at.path, err)
	}
	if st.isMountRoot || st.dev != r.dev {
		return fmt.Errorf("%s %w", at.path, ErrMountPoint)
	}
	if level >= removeDepth {
		r.movedUp = true
		return explain(at.path, unix.Renameat(at.fd(), at.name, int(r.top.Fd()), temporaryName()))
	}
	child, err := at.openDirectory()
	if err != nil {
		return exceptMissing(err)
	}
	defer child.Close()
	if err := r.empty(child, level+1); err != nil {
		return err
	}
	return exceptMissing(explain(at.path, unix.Unlinkat(at.fd(), at.name, unix.AT_REMOVEDIR)))
}

// temporaryName is a name nobody else uses or can guess.
func temporaryName() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	return ".execd-" + hex.EncodeToString(random[:])
}
