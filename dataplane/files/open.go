// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Rules for the links a path may go through. Magic links (/proc/self/root, /proc/1/fd/3) are never
// followed: they leave the tree whatever their text says.
const (
	followLinks   = unix.RESOLVE_NO_MAGICLINKS                            // reading
	followNothing = unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS // changing
	stayBeneath   = followNothing | unix.RESOLVE_BENEATH                  // unpacking into a directory
)

// retries bounds how often an open is tried again when a rename nearby made the kernel unsure.
const retries = 16

// kernelResolves is unknown, yes or no: whether openat2 works here. Old kernels, gVisor and strict
// system call filters do not have it.
var kernelResolves atomic.Int32

const (
	resolveUnknown = iota
	resolveInKernel
	resolveByWalking
)

func hasOpenat2() bool {
	if kernelResolves.Load() == resolveUnknown {
		fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: followLinks})
		if err != nil {
			kernelResolves.Store(resolveByWalking)
			return false
		}
		unix.Close(fd)
		kernelResolves.Store(resolveInKernel)
	}
	return kernelResolves.Load() == resolveInKernel
}

// openUnder opens path, relative to dir when it is relative, by the rules in resolve. It never
// creates: O_CREAT belongs to openat on a directory that this function opened.
func openUnder(dir int, path string, flags int, resolve uint64) (int, error) {
	flags |= unix.O_CLOEXEC
	if !hasOpenat2() {
		return openByWalking(dir, path, flags, resolve)
	}
	how := unix.OpenHow{Flags: uint64(flags), Resolve: resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, path, &how)
		if err == unix.EINTR || err == unix.EAGAIN && try < retries {
			continue
		}
		return fd, err
	}
}

// openPath opens an absolute path and explains a failure.
func openPath(path string, flags int, resolve uint64) (*os.File, error) {
	fd, err := openUnder(unix.AT_FDCWD, path, flags, resolve)
	if err == unix.ELOOP {
		return nil, explainLink(path, resolve)
	}
	if err != nil {
		return nil, explain(path, err)
	}
	return newFile(fd, path), nil
}

// newFile wraps fd without handing it to the poller, which has no use for plain files.
func newFile(fd int, path string) *os.File {
	_ = unix.SetNonblock(fd, false) // O_PATH descriptors refuse and need it not
	return os.NewFile(uintptr(fd), path)
}

// openRegular opens the plain file at path for reading, following ordinary links. It looks before it
// opens, because opening a device or FIFO has effects; and again after, because things move.
func openRegular(path string) (*os.File, status, error) {
	look, err := openPath(path, unix.O_PATH, followLinks)
	if errors.Is(err, ErrNotDirectory) {
		err = fmt.Errorf("%s: %w", path, ErrNotFound)
	}
	if err != nil {
		return nil, status{}, err
	}
	seen, err := statFile(look)
	look.Close()
	if err == nil {
		err = seen.checkRegular(path)
	}
	if err != nil {
		return nil, status{}, err
	}
	return openRegularAt(unix.AT_FDCWD, path, path, followLinks)
}

func openRegularAt(dir int, name, path string, resolve uint64) (*os.File, status, error) {
	fd, err := openUnder(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, resolve)
	if err != nil {
		return nil, status{}, explain(path, err)
	}
	f := newFile(fd, path)
	st, err := statFile(f)
	if err == nil {
		err = st.checkRegular(path)
	}
	if err != nil {
		f.Close()
		return nil, status{}, err
	}
	_ = unix.SetNonblock(fd, true) // a kernel file that would wait, like /proc/kmsg, fails instead
	return f, st, nil
}

// explainLink says which link on path was refused and which path to use instead.
func explainLink(path string, resolve uint64) error {
	at := "/"
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		at = join(at, name)
		text, err := os.Readlink(at)
		if err != nil {
			continue
		}
		if isMagicLink(at, text) {
			return fmt.Errorf("%s on the way to %s %w", at, path, ErrMagicLink)
		}
		if resolve&unix.RESOLVE_NO_SYMLINKS == 0 {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return fmt.Errorf("%s %w to %s; a change does not go through it, use %s", at, ErrSymlink, text, real)
		}
		return fmt.Errorf("%s %w to %s; a change does not go through it, use the real path", at, ErrSymlink, text)
	}
	return fmt.Errorf("%s goes through a magic link, a link being replaced, or a loop: %w", path, ErrSymlink)
}
