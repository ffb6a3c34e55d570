// SPDX-License-Identifier: Apache-2.0

package files

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// OpenDirectory opens the directory at path for Archive. A link leads to its directory.
func OpenDirectory(path string) (*os.File, error) {
	dir, _, err := openRoot(path, false)
	return dir, err
}

// Archive writes the content of dir as a tar stream: files, directories, and links as links.
// Sockets, FIFOs and devices are left out, and what cannot be read or vanishes meanwhile.
func Archive(ctx context.Context, w io.Writer, dir *os.File) error {
	buffered := bufio.NewWriterSize(w, BufferSize)
	a := archiver{ctx: ctx, tar: tar.NewWriter(buffered), names: NewNames()}
	walk := treeWalk{ctx: ctx, depth: maxDepth + 1, skipsKernel: true, visit: a.add, onTooDeep: func(path string) error {
		return fmt.Errorf("%s %w", path, ErrTooDeep)
	}}
	if err := walk.walk(dir, "", 1); err != nil {
		return err
	}
	if err := a.tar.Close(); err != nil {
		return fmt.Errorf("end archive: %w", err)
	}
	return buffered.Flush()
}

type archiver struct {
	ctx   context.Context
	tar   *tar.Writer
	names *Names
}

func (a *archiver) add(e entry) error {
	header := &tar.Header{
		Name: e.relative, Mode: int64(e.mode & 0o7777), ModTime: e.modified, Format: tar.FormatPAX,
		Uid: int(e.uid), Gid: int(e.gid), Uname: a.names.User(e.uid), Gname: a.names.Group(e.gid),
	}
	switch e.kind() {
	case unix.S_IFREG:
		return a.addFile(e, header)
	case unix.S_IFDIR:
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
	case unix.S_IFLNK:
		text, err := readLink(e.fd(), e.name)
		if err != nil {
			return nil
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, text
	default:
		return nil
	}
	return a.writeHeader(header)
}

func (a *archiver) writeHeader(header *tar.Header) error {
	if err := a.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("%s: write archive header: %w", header.Name, err)
	}
	return nil
}

// addFile promises the size of now and keeps to it: a file that shrinks meanwhile is filled up with
// zeros, of one that grows the rest is left out.
func (a *archiver) addFile(e entry, header *tar.Header) error {
	f, st, err := openRegularAt(e.fd(), e.name, e.path, followNothing)
	if err != nil {
		return nil
	}
	defer f.Close()
	header.Typeflag, header.Size = tar.TypeReg, st.size
	if err := a.writeHeader(header); err != nil {
		return err
	}
	written, err := Copy(a.ctx, archiveContent{a.tar}, io.LimitReader(f, st.size))
	var lost *archiveWriteError
	if errors.As(err, &lost) || a.ctx.Err() != nil {
		return err
	}
	_, err = Copy(a.ctx, a.tar, io.LimitReader(zeros{}, st.size-written))
	return err
}

// archiveContent tells a failure to write the archive from a failure to read the file.
type archiveContent struct{ w io.Writer }

type archiveWriteError struct{ error }

func (c archiveContent) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil {
		err = &archiveWriteError{err}
	}
	return n, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
