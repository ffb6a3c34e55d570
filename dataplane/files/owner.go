// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// Names remembers the names of users and groups for the length of one request.
type Names struct {
	users, groups map[uint32]string
}

// NewNames has looked nothing up yet.
func NewNames() *Names {
	return &Names{users: map[uint32]string{}, groups: map[uint32]string{}}
}

// User is the name of uid, or the number when it has none.
func (n *Names) User(uid uint32) string {
	name, ok := n.users[uid]
	if !ok {
		name = strconv.FormatUint(uint64(uid), 10)
		if account, err := user.LookupId(name); err == nil {
			name = account.Username
		}
		n.users[uid] = name
	}
	return name
}

// Group is the name of gid, or the number when it has none.
func (n *Names) Group(gid uint32) string {
	name, ok := n.groups[gid]
	if !ok {
		name = strconv.FormatUint(uint64(gid), 10)
		if group, err := user.LookupGroupId(name); err == nil {
			name = group.Name
		}
		n.groups[gid] = name
	}
	return name
}

// unset leaves an attribute as it is.
const unset = -1

// Attributes are the mode and owner to give to a file. Each may be left alone.
type Attributes struct {
	mode, uid, gid int
}

// KeepAttributes leaves everything alone.
func KeepAttributes() Attributes { return Attributes{unset, unset, unset} }

// NewAttributes takes them as the contract writes them: mode is a decimal number whose digits are
// octal, owner and group are names or numbers. 0 and the empty string leave things alone.
func NewAttributes(mode int, owner, group string) (Attributes, error) {
	a := KeepAttributes()
	var err error
	if mode != 0 {
		if a.mode, err = parseMode(mode); err != nil {
			return a, err
		}
	}
	if owner != "" {
		if a.uid, err = lookUp("user", owner, userID); err != nil {
			return a, err
		}
	}
	if group != "" {
		if a.gid, err = lookUp("group", group, groupID); err != nil {
			return a, err
		}
	}
	return a, nil
}

func parseMode(digits int) (int, error) {
	mode, err := strconv.ParseUint(strconv.Itoa(digits), 8, 32)
	if err != nil || mode > 0o7777 {
		return unset, fmt.Errorf("%d %w: write the octal digits as a number, such as 644 or 755", digits, ErrInvalidMode)
	}
	return int(mode), nil
}

func lookUp(kind, name string, find func(string) (string, error)) (int, error) {
	text, err := find(name)
	if err != nil {
		text = name // not a name, so it must be a number
	}
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 1<<32-1 {
		return unset, fmt.Errorf("%s %q: %w", kind, name, ErrUnknownOwner)
	}
	return int(id), nil
}

func userID(name string) (string, error) {
	account, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return account.Uid, nil
}

func groupID(name string) (string, error) {
	group, err := user.LookupGroup(name)
	if err != nil {
		return "", err
	}
	return group.Gid, nil
}

// apply gives the attributes to an opened file, which may be opened with O_PATH. The owner goes
// first, because changing it takes set-user-id bits away.
func (a Attributes) apply(f *os.File) error {
	fd := int(f.Fd())
	if a.uid != unset || a.gid != unset {
		if err := unix.Fchownat(fd, "", a.uid, a.gid, unix.AT_EMPTY_PATH); err != nil {
			return explain(f.Name()+": change owner", err)
		}
	}
	if a.mode == unset {
		return nil
	}
	return explain(f.Name()+": change mode", chmod(fd, uint32(a.mode)))
}

// chmod changes the mode behind any descriptor, by the first way that this kernel has.
func chmod(fd int, mode uint32) error {
	err := unix.Fchmod(fd, mode)
	if err != unix.EBADF {
		return err
	}
	if err = unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH); err == nil {
		return nil
	}
	if old := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode); old != unix.ENOENT {
		return old
	}
	return err
}

// SetAttributes changes the mode and owner of the file at path. A link is refused.
func SetAttributes(path string, attributes Attributes) error {
	at, err := placeOf(path)
	if err != nil {
		return err
	}
	defer at.close()
	f, st, err := at.look()
	if err != nil {
		return err
	}
	defer f.Close()
	if st.isLink() {
		return explainLink(path, followNothing)
	}
	return attributes.apply(f)
}
