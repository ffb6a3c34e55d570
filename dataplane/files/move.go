// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Move gives the file, link or directory at source the path dest, which must not exist. Directories
// above dest are made. Between file systems it copies and then removes.
func Move(ctx context.Context, source, dest string) error {
	from, err := placeOf(source)
	if errors.Is(err, ErrNotDirectory) {
		err = fmt.Errorf("%s: %w", source, ErrNotFound)
	}
	if err != nil {
		return err
	}
	defer from.close()
	st, err := from.stat()
	if err != nil {
		return err
	}
	if source == "/" || st.isMountRoot {
		return fmt.Errorf("%s %w", source, ErrMountPoint)
	}
	to, made, err := makePlace(dest)
	if err != nil {
		return err
	}
	defer to.close()
	err = rename(from, to)
	if err == unix.EXDEV {
		err = moveByCopy(ctx, from, to, st)
	}
	if err != nil {
		removeDirectories(made)
	}
	if err == unix.EINVAL {
		return fmt.Errorf("%s cannot become a part of itself, and so %s %w", source, dest, ErrInvalidPath)
	}
	if err == unix.EEXIST || err == unix.EBUSY && dest == "/" {
		return fmt.Errorf("%s: %w", dest, ErrExists)
	}
	return explain(source, err)
}

// rename renames and never replaces.
func rename(from, to place) error {
	err := unix.Renameat2(from.fd(), from.name, to.fd(), to.name, unix.RENAME_NOREPLACE)
	if err != unix.ENOSYS && err != unix.EINVAL && err != unix.EPERM {
		return err
	}
	// The kernel, a filter or the file system does not know the flag: look, then rename.
	if _, err := to.stat(); err == nil {
		return unix.EEXIST
	}
	return unix.Renameat(from.fd(), from.name, to.fd(), to.name)
}

func moveByCopy(ctx context.Context, from, to place, st status) error {
	if _, err := to.stat(); err == nil {
		return unix.EEXIST
	}
	temp := place{dir: to.dir, name: temporaryName(), path: to.path}
	err := copyTree(ctx, entry{from, st, ""}, temp, 1)
	if err == nil {
		err = rename(temp, to)
	}
	if err != nil {
		discardTree(temp)
		return err
	}
	if st.isDirectory() {
		return removeTree(context.WithoutCancel(ctx), from, st.dev) // the copy is whole: finish
	}
	return unix.Unlinkat(from.fd(), from.name, 0)
}

// discardTree removes a copy that did not succeed, also when the request was given up.
func discardTree(temp place) {
	st, err := temp.stat()
	if err != nil {
		return
	}
	if st.isDirectory() {
		_ = removeTree(context.Background(), temp, st.dev) // what stays behind is a hidden name
		return
	}
	_ = unix.Unlinkat(temp.fd(), temp.name, 0)
}
