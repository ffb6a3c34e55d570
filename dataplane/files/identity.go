// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// As does work with the file access of another user: what it opens is checked against uid, gid and
// groups, and what it makes belongs to them. Only root can be somebody else.
//
// The kernel keeps these ids for each thread. So the work gets a thread to itself, which ends with
// it and is never given back to the others.
func As(uid, gid uint32, groups []uint32, work func() error) error {
	if int(uid) == os.Geteuid() && int(gid) == os.Getegid() {
		return work()
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: uid %d gid %d, and the daemon is uid %d gid %d and not root", ErrIdentity, uid, gid, os.Geteuid(), os.Getegid())
	}
	select {
	case threads <- struct{}{}:
		defer func() { <-threads }()
	case <-time.After(threadWait):
		return fmt.Errorf("%w: %d requests with an identity are under way", ErrTooMany, cap(threads))
	}
	var result error
	var panicked any
	onOwnThread(func() {
		defer func() { panicked = recover() }()
		if result = become(uid, gid, groups); result == nil {
			result = work()
		}
	})
	if panicked != nil {
		panic(panicked) // where net/http expects it
	}
	return result
}

// threads bounds how many threads this takes. They count as processes, and a Go program that cannot
// make a thread dies.
var threads = make(chan struct{}, 32)

// threadWait is how long a request waits for another's thread to end: a client that reads slowly keeps its.
var threadWait = 10 * time.Second

// onOwnThread runs f on a thread that ends afterwards, and waits. The first thread of a process
// cannot end, so it is kept busy while f gets another.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		f() // still locked when the goroutine ends, hence the thread ends too
	}()
	<-done
}

// become changes the ids of this thread alone: the calls are raw, where the standard library's would
// change every thread. Groups go first, while the thread may still change them.
func become(uid, gid uint32, groups []uint32) error {
	if len(groups) == 0 {
		groups = []uint32{gid}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return fmt.Errorf("%w: set groups: %w", ErrIdentity, errno)
	}
	if err := setFileID(unix.SYS_SETFSGID, unix.SYS_SETRESGID, gid); err != nil {
		return fmt.Errorf("%w: gid %d: %w", ErrIdentity, gid, err)
	}
	if err := setFileID(unix.SYS_SETFSUID, unix.SYS_SETRESUID, uid); err != nil {
		return fmt.Errorf("%w: uid %d: %w", ErrIdentity, uid, err)
	}
	if uid == 0 {
		return nil
	}
	return dropCapabilities()
}

// setFileID sets the id for file access, or the effective id where the kernel (gVisor) has no such
// call. The first never reports failure, so it is asked again what the id is now.
func setFileID(call, effectiveCall uintptr, id uint32) error {
	const ask = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(call, uintptr(id), 0, 0); errno != 0 {
		if _, _, errno := unix.RawSyscall(effectiveCall, ask, uintptr(id), ask); errno != 0 {
			return errno
		}
		return nil
	}
	if now, _, _ := unix.RawSyscall(call, ask, 0, 0); uint32(now) != id {
		return unix.EPERM // an id this user namespace does not have, or no right to it
	}
	return nil
}

// dropCapabilities takes from the thread what the change of ids leaves: the rights that are not about
// files but open some, such as those on other processes under /proc.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("%w: read capabilities: %w", ErrIdentity, err)
	}
	data[0].Effective, data[1].Effective = 0, 0
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("%w: drop capabilities: %w", ErrIdentity, err)
	}
	return nil
}
