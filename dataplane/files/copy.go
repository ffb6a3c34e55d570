// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// copyTree copies what from is to the new name to, with modes, owners and times as far as allowed.
func copyTree(ctx context.Context, from entry, to place, level int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	switch from.kind() {
	case unix.S_IFREG:
		err = copyFile(ctx, from, to)
	case unix.S_IFDIR:
		err = copyDirectory(ctx, from, to, level)
	case unix.S_IFLNK:
		err = copyLink(from, to)
	default:
		err = fmt.Errorf("%s: %w, and cannot be copied to another file system", from.path, ErrSpecial)
	}
	if err != nil {
		return err
	}
	setModified(to, from.modified)
	return nil
}

func copyFile(ctx context.Context, from entry, to place) error {
	source, st, err := openRegularAt(from.fd(), from.name, from.path, followNothing)
	if err != nil {
		return err
	}
	defer source.Close()
	dest, err := createAt(to)
	if err != nil {
		return err
	}
	defer dest.Close()
	if _, err := Copy(ctx, dest, source); err != nil {
		return explain(to.path, err)
	}
	return copyAttributes(st, dest)
}

func copyDirectory(ctx context.Context, from entry, to place, level int) error {
	if level > maxDepth {
		return fmt.Errorf("%s %w", from.path, ErrTooDeep)
	}
	source, err := from.openDirectory()
	if err != nil {
		return err
	}
	defer source.Close()
	if err := unix.Mkdirat(to.fd(), to.name, 0o700); err != nil {
		return explain(to.path, err)
	}
	dest, err := to.openDirectory()
	if err != nil {
		return err
	}
	defer dest.Close()
	names, err := source.Readdirnames(-1)
	if err != nil {
		return explain(from.path, err)
	}
	for _, name := range names {
		child := place{dir: source, name: name, path: join(from.path, name)}
		st, err := child.stat()
		if err != nil {
			return err
		}
		if err := copyTree(ctx, entry{child, st, ""}, place{dir: dest, name: name, path: join(to.path, name)}, level+1); err != nil {
			return err
		}
	}
	return copyAttributes(from.status, dest)
}

func copyLink(from entry, to place) error {
	text, err := readLink(from.fd(), from.name)
	if err != nil {
		return explain(from.path, err)
	}
	if err := unix.Symlinkat(text, to.fd(), to.name); err != nil {
		return explain(to.path, err)
	}
	_ = unix.Fchownat(to.fd(), to.name, int(from.uid), int(from.gid), unix.AT_SYMLINK_NOFOLLOW) // only root may give away
	return nil
}

// copyAttributes gives dest the owner and mode that st has. Who may not give files away keeps the
// copy, without the set-user-id bits that meant the other owner.
func copyAttributes(st status, dest *os.File) error {
	mode := int(st.mode & 0o7777)
	if unix.Fchown(int(dest.Fd()), int(st.uid), int(st.gid)) != nil {
		mode &= 0o1777
	}
	return Attributes{mode: mode, uid: unset, gid: unset}.apply(dest)
}

// createAt makes a new, private file at the place.
func createAt(at place) (*os.File, error) {
	flags := unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at.fd(), at.name, flags, 0o600)
	if err != nil {
		return nil, explain(at.path, err)
	}
	return os.NewFile(uintptr(fd), at.path), nil
}
