// SPDX-License-Identifier: Apache-2.0

package files

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links one path may go through, as in the kernel.
const maxLinks = 40

// openByWalking does what openat2 does, one part of the path at a time, where there is no openat2.
func openByWalking(dir int, path string, flags int, resolve uint64) (int, error) {
	w := walker{flags: flags, resolve: resolve, parts: strings.Split(path, "/")}
	if resolve&unix.RESOLVE_BENEATH != 0 && (strings.HasPrefix(path, "/") || slices.Contains(w.parts, "..")) {
		return -1, unix.EXDEV
	}
	if path == "" {
		return -1, unix.ENOENT
	}
	start := "."
	if strings.HasPrefix(path, "/") {
		start = "/"
	}
	if err := w.move(dir, start); err != nil {
		return -1, err
	}
	defer func() { unix.Close(w.dir) }()
	for len(w.parts) > 0 {
		name := w.parts[0]
		w.parts = w.parts[1:]
		fd, err := w.step(name)
		if fd >= 0 || err != nil {
			return fd, err
		}
	}
	return unix.Openat(w.dir, ".", flags&^unix.O_NOFOLLOW, 0)
}

type walker struct {
	dir     int // where the walk is
	isOpen  bool
	parts   []string // what is left to walk
	links   int
	flags   int
	resolve uint64
}

// move makes name, relative to dir, the place where the walk is.
func (w *walker) move(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if w.isOpen {
		unix.Close(w.dir)
	}
	w.dir, w.isOpen = fd, true
	return nil
}

// step walks one part. It returns a descriptor when that was the last one and -1 before.
func (w *walker) step(name string) (int, error) {
	if name == "" || name == "." {
		return -1, nil
	}
	if name == ".." {
		return -1, w.move(w.dir, "..")
	}
	var st unix.Stat_t
	if err := unix.Fstatat(w.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	isLast := !slices.ContainsFunc(w.parts, func(part string) bool { return part != "" && part != "." })
	isLink := st.Mode&unix.S_IFMT == unix.S_IFLNK
	switch {
	case isLink && isLast && w.flags&unix.O_NOFOLLOW != 0, !isLink && isLast:
		return unix.Openat(w.dir, name, w.flags|unix.O_NOFOLLOW, 0)
	case isLink:
		return -1, w.follow(name)
	}
	return -1, w.move(w.dir, name)
}

// follow puts the text of a link in front of what is left to walk.
func (w *walker) follow(name string) error {
	w.links++
	if w.resolve&unix.RESOLVE_NO_SYMLINKS != 0 || w.links > maxLinks {
		return unix.ELOOP
	}
	text, err := readLink(w.dir, name)
	if err != nil {
		return err
	}
	if isMagicText(text) {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(w.dir, &fs); err != nil || fs.Type == unix.PROC_SUPER_MAGIC {
			return unix.ELOOP
		}
	}
	w.parts = append(strings.Split(text, "/"), w.parts...)
	if strings.HasPrefix(text, "/") {
		return w.move(w.dir, "/")
	}
	return nil
}

func readLink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// isMagicText tells a magic link of procfs from an ordinary one such as self or mounts by its text:
// the ordinary ones are short relative paths of plain letters, a magic one starts with "/" or says
// what it is, as in pipe:[1] or (unreachable)/x.
func isMagicText(text string) bool {
	if text == "" || text[0] == '/' {
		return true
	}
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '/' {
			return true
		}
	}
	return false
}

func isMagicLink(path, text string) bool {
	var fs unix.Statfs_t
	parent := path[:strings.LastIndexByte(path, '/')+1]
	return isMagicText(text) && unix.Statfs(parent, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC
}
