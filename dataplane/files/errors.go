// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// What can be wrong with a file operation. Every error of this package wraps one of these, or is a
// fault of the machine.
var (
	ErrNotFound       = errors.New("does not exist")
	ErrIsDirectory    = errors.New("is a directory")
	ErrNotDirectory   = errors.New("is not a directory")
	ErrSymlink        = errors.New("is a symbolic link")
	ErrMagicLink      = errors.New("is a magic link of /proc, which leads anywhere")
	ErrSpecial        = errors.New("is a FIFO, socket or device")
	ErrExists         = errors.New("already exists")
	ErrInvalidPath    = errors.New("is not a usable path")
	ErrMountPoint     = errors.New("is the root of a mounted file system")
	ErrPermission     = errors.New("permission denied")
	ErrInvalidMode    = errors.New("is not a mode")
	ErrUnknownOwner   = errors.New("no such user or group")
	ErrInvalidPattern = errors.New("is not a glob pattern")
	ErrUnsatisfiable  = errors.New("range not satisfiable")
	ErrMultipart      = errors.New("malformed multipart body")
	ErrArchive        = errors.New("malformed archive")
	ErrArchiveEntry   = errors.New("refused archive entry")
	ErrAlgorithm      = errors.New("unknown checksum algorithm")
	ErrTooDeep        = errors.New("is nested too deeply")
	ErrTooMany        = errors.New("too many at once")
	ErrIdentity       = errors.New("cannot act as that user and group")
)

var errnoMeaning = map[unix.Errno]error{
	unix.ENOENT:       ErrNotFound,
	unix.ENOTDIR:      ErrNotDirectory,
	unix.EISDIR:       ErrIsDirectory,
	unix.ELOOP:        ErrSymlink,
	unix.EEXIST:       ErrExists,
	unix.ENOTEMPTY:    ErrExists,
	unix.EACCES:       ErrPermission,
	unix.EPERM:        ErrPermission,
	unix.EBUSY:        ErrMountPoint,
	unix.ENXIO:        ErrSpecial,
	unix.ENODEV:       ErrSpecial,
	unix.EAGAIN:       ErrSpecial, // only a file that is not plain makes a non-blocking read wait
	unix.ENAMETOOLONG: ErrInvalidPath,
	unix.EILSEQ:       ErrInvalidPath,
}

// explain names the path and translates what the kernel said into one of the errors above. An error
// that is explained already stays as it is.
func explain(path string, err error) error {
	var errno unix.Errno
	if err == nil || !errors.As(err, &errno) {
		return err
	}
	if meaning, ok := errnoMeaning[errno]; ok {
		return fmt.Errorf("%s: %w", path, meaning)
	}
	return fmt.Errorf("%s: %w", path, errno)
}
