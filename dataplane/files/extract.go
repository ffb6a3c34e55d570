// SPDX-License-Identifier: Apache-2.0

package files

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Extract unpacks a tar stream, which may be compressed with gzip, into the directory at root, made
// when missing. Nothing leaves that directory: an entry that is absolute, has "..", goes through a
// link, or is a device or FIFO ends the extraction. What came before it stays.
func Extract(ctx context.Context, root string, r io.Reader) error {
	dir, _, err := makeDirectories(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	source := bufio.NewReaderSize(r, BufferSize)
	var stream io.Reader = source
	if magic, _ := source.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(source)
		if err != nil {
			return fmt.Errorf("%w: %v", ErrArchive, err)
		}
		stream = unzipped
	}
	x := extractor{ctx: ctx, root: dir, archive: tar.NewReader(stream)}
	return x.run()
}

type extractor struct {
	ctx         context.Context
	root        *os.File
	archive     *tar.Reader
	directories []directoryEntry // get their mode at the end: it may forbid to fill them
}

type directoryEntry struct {
	name     string
	mode     int
	modified time.Time
}

func (x *extractor) run() error {
	for {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		header, err := x.archive.Next()
		if err == io.EOF {
			return x.finishDirectories()
		}
		if err != nil {
			return fmt.Errorf("%w: %v", ErrArchive, err)
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := x.extract(header); err != nil {
			return err
		}
	}
}

func refused(header *tar.Header, reason string) error {
	return fmt.Errorf("%w %q: %s", ErrArchiveEntry, header.Name, reason)
}

// checkName is the name below the root, or why there cannot be one.
func checkName(header *tar.Header, name string) (string, error) {
	switch {
	case strings.HasPrefix(name, "/"):
		return "", refused(header, "an absolute name leaves the directory")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", refused(header, `a name with ".." leaves the directory`)
	case strings.ContainsRune(name, 0):
		return "", refused(header, "a name cannot contain NUL")
	}
	return path.Clean(name), nil
}

func (x *extractor) extract(header *tar.Header) error {
	name, err := checkName(header, header.Name)
	if err != nil {
		return err
	}
	var write func(*tar.Header, place) error
	switch header.Typeflag {
	case tar.TypeDir:
		return x.makeDirectory(header, name)
	case tar.TypeReg:
		write = x.writeFile
	case tar.TypeSymlink:
		write = x.writeLink
	case tar.TypeLink:
		write = x.writeHardLink
	default:
		return refused(header, fmt.Sprintf("type %q is a device, a FIFO or unknown; only files, directories and links are unpacked", header.Typeflag))
	}
	if name == "." {
		return refused(header, "it would replace the directory itself")
	}
	at, err := x.place(header, name)
	if err != nil {
		return err
	}
	defer at.close()
	temp := place{dir: at.dir, name: temporaryName(), path: at.path}
	defer unix.Unlinkat(temp.fd(), temp.name, 0) // there is nothing left to remove after success
	if err := write(header, temp); err != nil {
		return err
	}
	err = unix.Renameat(temp.fd(), temp.name, at.fd(), at.name)
	return explain(at.path, err)
}

// place opens the directory of name below the root, making what is missing on the way.
func (x *extractor) place(header *tar.Header, name string) (place, error) {
	parent := path.Dir(name)
	dir, err := x.openDirectory(header, parent)
	if errors.Is(err, ErrNotFound) {
		if err = x.makeBelow(header, parent); err == nil {
			dir, err = x.openDirectory(header, parent)
		}
	}
	if err != nil {
		return place{}, err
	}
	return place{dir: dir, name: path.Base(name), path: join(x.root.Name(), name)}, nil
}

func (x *extractor) openDirectory(header *tar.Header, name string) (*os.File, error) {
	fd, err := openUnder(int(x.root.Fd()), name, unix.O_PATH|unix.O_DIRECTORY, stayBeneath)
	switch err {
	case nil:
		return os.NewFile(uintptr(fd), join(x.root.Name(), name)), nil
	case unix.ELOOP, unix.EXDEV:
		return nil, refused(header, "there is a symbolic link on its way")
	case unix.ENOTDIR:
		return nil, refused(header, "there is a file on its way, where a directory should be")
	}
	return nil, explain(join(x.root.Name(), name), err)
}

// makeBelow makes the directory name below the root, and those above it.
func (x *extractor) makeBelow(header *tar.Header, name string) error {
	if name == "." {
		return nil
	}
	at, err := x.place(header, name)
	if err != nil {
		return err
	}
	defer at.close()
	if err := unix.Mkdirat(at.fd(), at.name, parentMode); err != nil && err != unix.EEXIST {
		return explain(at.path, err)
	}
	return nil
}

func (x *extractor) makeDirectory(header *tar.Header, name string) error {
	if err := x.makeBelow(header, name); err != nil {
		return err
	}
	dir, err := x.openDirectory(header, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if name != "." {
		x.directories = append(x.directories, directoryEntry{name, int(header.Mode & 0o777), header.ModTime})
	}
	return nil
}

func (x *extractor) finishDirectories() error {
	for _, d := range slices.Backward(x.directories) {
		header := &tar.Header{Name: d.name}
		dir, err := x.openDirectory(header, d.name)
		if err != nil {
			return err
		}
		err = Attributes{mode: d.mode, uid: unset, gid: unset}.apply(dir)
		dir.Close()
		if err != nil {
			return err
		}
		if at, err := x.place(header, d.name); err == nil {
			setModified(at, d.modified)
			at.close()
		}
	}
	return nil
}

func (x *extractor) writeFile(header *tar.Header, temp place) error {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return refused(header, "sparse files are not unpacked; make the archive without --sparse")
		}
	}
	f, err := createAt(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := Copy(x.ctx, f, archiveSource{x.archive}); err != nil {
		return explain(temp.path, err)
	}
	if err := (Attributes{mode: int(header.Mode & 0o777), uid: unset, gid: unset}).apply(f); err != nil {
		return err
	}
	setModified(temp, header.ModTime)
	return nil
}

func (x *extractor) writeLink(header *tar.Header, temp place) error {
	if header.Linkname == "" || strings.ContainsRune(header.Linkname, 0) {
		return refused(header, "a symbolic link needs a text")
	}
	if err := unix.Symlinkat(header.Linkname, temp.fd(), temp.name); err != nil {
		return explain(temp.path, err)
	}
	setModified(temp, header.ModTime)
	return nil
}

// writeHardLink links to another plain file below the root.
func (x *extractor) writeHardLink(header *tar.Header, temp place) error {
	name, err := checkName(header, header.Linkname)
	if err != nil {
		return err
	}
	from, err := x.place(header, name)
	if err != nil {
		return err
	}
	defer from.close()
	if st, err := from.stat(); err != nil || !st.isRegular() {
		return refused(header, fmt.Sprintf("it links to %q, which is no file below the directory", header.Linkname))
	}
	return explain(temp.path, unix.Linkat(from.fd(), from.name, temp.fd(), temp.name, 0))
}

// archiveSource marks a failure to read the archive, to tell it from a failure to write the file.
type archiveSource struct{ r io.Reader }

func (s archiveSource) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %v", ErrArchive, err)
	}
	return n, err
}

// setModified sets the time of the last change; failing to is not worth an error.
func setModified(at place, t time.Time) {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: t.Unix(), Nsec: int64(t.Nanosecond())}}
	_ = unix.UtimesNanoAt(at.fd(), at.name, times, unix.AT_SYMLINK_NOFOLLOW)
}
