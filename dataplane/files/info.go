// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Info is what a client learns about a file. Links are not followed.
type Info struct {
	Path       string    `json:"path"`
	Size       int64     `json:"size"`
	ModifiedAt time.Time `json:"modified_at"`
	CreatedAt  time.Time `json:"created_at"`
	Owner      string    `json:"owner"`
	Group      string    `json:"group"`
	Mode       int       `json:"mode"` // the octal digits as a decimal number
	Type       string    `json:"type"`
}

// Stat tells about the file at path.
func Stat(path string, names *Names) (Info, error) {
	f, err := openPath(path, unix.O_PATH|unix.O_NOFOLLOW, followLinks)
	if errors.Is(err, ErrNotDirectory) {
		err = fmt.Errorf("%s: %w", path, ErrNotFound)
	}
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	st, err := statFile(f)
	if err != nil {
		return Info{}, explain(path, err)
	}
	return st.info(path, names), nil
}

// status is the part of a file's status that this package uses.
type status struct {
	mode        uint32
	uid, gid    uint32
	links       uint32
	size        int64
	dev         uint64
	modified    time.Time
	created     time.Time // of the last change of status where the file system keeps no birth time
	isMountRoot bool
}

func statFile(f *os.File) (status, error) {
	return statAt(int(f.Fd()), "", unix.AT_EMPTY_PATH)
}

// statAt is the status of name in dir, never of what a link leads to.
func statAt(dir int, name string, flags int) (status, error) {
	var sx unix.Statx_t
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	err := unix.Statx(dir, name, flags|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, mask, &sx)
	if err != nil {
		if err == unix.ENOSYS || err == unix.EPERM {
			return oldStatAt(dir, name, flags)
		}
		return status{}, err
	}
	created := sx.Ctime
	if sx.Mask&unix.STATX_BTIME != 0 {
		created = sx.Btime
	}
	return status{
		mode: uint32(sx.Mode), uid: sx.Uid, gid: sx.Gid, links: sx.Nlink, size: int64(sx.Size),
		dev:         unix.Mkdev(sx.Dev_major, sx.Dev_minor),
		modified:    moment(sx.Mtime.Sec, int64(sx.Mtime.Nsec)),
		created:     moment(created.Sec, int64(created.Nsec)),
		isMountRoot: sx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0,
	}, nil
}

// oldStatAt serves kernels without statx.
func oldStatAt(dir int, name string, flags int) (status, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, flags|unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return status{}, err
	}
	return status{
		mode: st.Mode, uid: st.Uid, gid: st.Gid, links: uint32(st.Nlink), size: st.Size, dev: st.Dev,
		modified: moment(st.Mtim.Unix()), created: moment(st.Ctim.Unix()),
	}, nil
}

// moment keeps a file's time within the years that JSON can say.
func moment(sec, nsec int64) time.Time {
	const first, last = -62135596800, 253402300799 // the years 1 and 9999
	return time.Unix(min(max(sec, first), last), nsec).UTC()
}

func (st status) kind() uint32      { return st.mode & unix.S_IFMT }
func (st status) isDirectory() bool { return st.kind() == unix.S_IFDIR }
func (st status) isLink() bool      { return st.kind() == unix.S_IFLNK }
func (st status) isRegular() bool   { return st.kind() == unix.S_IFREG }

// checkRegular says why st cannot be read or written as a plain file.
func (st status) checkRegular(path string) error {
	switch {
	case st.isRegular():
		return nil
	case st.isDirectory():
		return fmt.Errorf("%s: %w", path, ErrIsDirectory)
	case st.isLink():
		return fmt.Errorf("%s %w", path, ErrSymlink)
	}
	return fmt.Errorf("%s: %w", path, ErrSpecial)
}

func (st status) info(path string, names *Names) Info {
	mode, _ := strconv.Atoi(strconv.FormatUint(uint64(st.mode&0o7777), 8)) // octal digits are decimal digits
	info := Info{
		Path: path, Size: st.size, ModifiedAt: st.modified, CreatedAt: st.created,
		Owner: names.User(st.uid), Group: names.Group(st.gid), Mode: mode, Type: "other",
	}
	switch st.kind() {
	case unix.S_IFREG:
		info.Type = "file"
	case unix.S_IFDIR:
		info.Type = "directory"
	case unix.S_IFLNK:
		info.Type = "symlink"
	}
	return info
}
