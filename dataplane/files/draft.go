// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// defaultMode is the mode of a new file that none was given for, as the contract says.
const defaultMode = 0o755

// A draft is the new content of a file before it is the file: a temporary file in the same directory
// that takes the name on commit. What was there stays whole until then, and if it never comes.
type draft struct {
	at         place
	temp       place    // name is empty when the draft had to be made elsewhere and has no name
	file       *os.File // open until finished
	previous   *status  // nil: there was no file
	attributes Attributes
	isInPlace  bool // the content is copied into the old file instead of replacing it
}

// newDraft starts a draft of the file at the place. Only a plain file can be there already, and it
// must be writable: having a draft is no way around its mode.
func newDraft(at place, attributes Attributes) (*draft, error) {
	d := &draft{at: at, attributes: attributes}
	st, err := at.stat()
	switch {
	case err == nil && st.isLink():
		return nil, explainLink(at.path, followNothing)
	case err == nil:
		if err := st.checkRegular(at.path); err != nil {
			return nil, err
		}
		if err := d.checkWritable(); err != nil {
			return nil, err
		}
		d.previous = &st
		d.isInPlace = st.links > 1 // other names of it must see the new content
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	return d, d.create()
}

func (d *draft) checkWritable() error {
	f, err := d.openTarget()
	if err == nil {
		f.Close()
	}
	if errors.Is(err, unix.ETXTBSY) { // a running program cannot be written to, but can be replaced
		return nil
	}
	return err
}

func (d *draft) openTarget() (*os.File, error) {
	fd, err := unix.Openat(d.at.fd(), d.at.name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, explain(d.at.path, err)
	}
	f := newFile(fd, d.at.path)
	st, err := statFile(f)
	if err == nil {
		err = st.checkRegular(d.at.path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d *draft) create() (err error) {
	d.temp = place{dir: d.at.dir, name: temporaryName(), path: d.at.path}
	d.file, err = createAt(d.temp)
	if err == nil || d.previous == nil || !isNoPlaceForFiles(err) {
		return err
	}
	// The directory takes no new file, the old one may still be written.
	d.temp.name, d.isInPlace = "", true
	d.file, err = os.CreateTemp("", ".execd-*")
	if err != nil {
		return fmt.Errorf("%s: keep the new content until it is complete: %w", d.at.path, err)
	}
	return os.Remove(d.file.Name())
}

func isNoPlaceForFiles(err error) bool {
	return errors.Is(err, ErrPermission) || errors.Is(err, unix.EROFS)
}

// finish gives the draft its mode and owner. With a name it is closed, so that an upload of many
// files needs few descriptors.
func (d *draft) finish() error {
	if !d.isInPlace {
		if err := d.applyAttributes(); err != nil {
			return err
		}
	}
	if d.isInPlace {
		return nil
	}
	err := d.file.Close()
	d.file = nil
	return explain(d.at.path, err)
}

// applyAttributes makes the draft look like the file it will be. Where the old owner cannot be kept that way,
// the old file has to stay.
func (d *draft) applyAttributes() error {
	look := d.attributes
	if look.mode == unset {
		look.mode = defaultMode
		if d.previous != nil {
			look.mode = int(d.previous.mode & 0o7777)
		}
	}
	if d.previous != nil {
		owner := Attributes{mode: unset, uid: int(d.previous.uid), gid: int(d.previous.gid)}
		if own, err := statFile(d.file); err != nil || own.uid != d.previous.uid || own.gid != d.previous.gid {
			if owner.apply(d.file) != nil {
				d.isInPlace = true
				return nil
			}
		}
	}
	return look.apply(d.file)
}

// commit makes the draft the file.
func (d *draft) commit() error {
	if !d.isInPlace {
		err := unix.Renameat(d.at.fd(), d.temp.name, d.at.fd(), d.at.name)
		switch err {
		case nil:
			d.temp.name = ""
			return nil
		case unix.EBUSY, unix.EXDEV, unix.EPERM, unix.EACCES:
			// A file mounted by itself, or another's in a sticky directory: only its content changes.
			if err := d.reopen(); err != nil {
				return err
			}
		default:
			return explain(d.at.path, err)
		}
	}
	return d.copyInPlace()
}

func (d *draft) reopen() error {
	_ = unix.Fchmodat(d.temp.fd(), d.temp.name, 0o600, 0) // its mode may forbid reading; opening tells
	file, _, err := openRegularAt(d.temp.fd(), d.temp.name, d.at.path, followNothing)
	d.file = file
	return err
}

// copyInPlace cannot be interrupted: half of a content is worse than a client waiting in vain.
func (d *draft) copyInPlace() error {
	target, err := d.openTarget()
	if err != nil {
		return err
	}
	defer target.Close()
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return explain(d.at.path, err)
	}
	if err := target.Truncate(0); err != nil {
		return explain(d.at.path, err)
	}
	if _, err := Copy(context.Background(), target, d.file); err != nil {
		return explain(d.at.path, err)
	}
	return d.attributes.apply(target)
}

// discard leaves no trace of the draft. After commit it only cleans up.
func (d *draft) discard() {
	if d.file != nil {
		d.file.Close()
		d.file = nil
	}
	if d.temp.name != "" {
		_ = unix.Unlinkat(d.temp.fd(), d.temp.name, 0) // it may never have been made
	}
}
