// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// become takes another identity, for good. Go applies each call to every thread.
func become(who identity) error {
	if os.Geteuid() == who.uid && os.Getegid() == who.gid && who.uid != 0 {
		return nil // started as it should be
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("-drop %d:%d: only root can become somebody else", who.uid, who.gid)
	}
	if who.uid == 0 || who.gid == 0 {
		return errors.New("-drop: 0 is root, which is what is to be dropped")
	}
	if err := syscall.Setgroups([]int{}); err != nil {
		return fmt.Errorf("-drop: drop groups: %w", err)
	}
	if err := syscall.Setgid(who.gid); err != nil {
		return fmt.Errorf("-drop: become group %d: %w", who.gid, err)
	}
	if err := syscall.Setuid(who.uid); err != nil {
		return fmt.Errorf("-drop: become user %d: %w", who.uid, err)
	}
	if syscall.Setuid(0) == nil || syscall.Setgid(0) == nil {
		return errors.New("-drop: root can be taken back")
	}
	return nil
}
