// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Identity is who a process runs as, or a file operation is done as.
type Identity struct {
	UID, GID uint32
	Groups   []uint32
	Name     string // empty when the user database does not know the uid
	Home     string
}

// UserIdentity is uid with the groups the user database gives it. A uid it does not know gets the
// group of the same number and no others.
func UserIdentity(uid uint32) *Identity {
	id := &Identity{UID: uid, GID: uid}
	account, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return id
	}
	id.Name, id.Home = account.Username, account.HomeDir
	id.GID = parseID(account.Gid, uid)
	groups, _ := account.GroupIds() // an unreadable group file means no extra groups
	for _, g := range groups {
		id.Groups = append(id.Groups, parseID(g, id.GID))
	}
	return id
}

// WithGroup is the identity in exactly one group, as an explicit gid asks for.
func (id *Identity) WithGroup(gid uint32) *Identity {
	other := *id
	other.GID, other.Groups = gid, nil
	return &other
}

func (id *Identity) credential() *syscall.Credential {
	// Only root may set groups; anybody may become what they are already.
	return &syscall.Credential{Uid: id.UID, Gid: id.GID, Groups: id.Groups, NoSetGroups: os.Geteuid() != 0}
}

func parseID(text string, otherwise uint32) uint32 {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return otherwise
	}
	return uint32(n)
}
