// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// hangUpGrace is what programs get between SIGHUP and SIGKILL to save their work.
	hangUpGrace = time.Second
	// killGrace bounds the wait for a killed shell: one in an uninterruptible system call cannot die.
	killGrace = 5 * time.Second
)

// hangUp ends the shell and everything it started that has not made a session of its own: first as a
// terminal does that is closed, then by force.
func (s *shell) hangUp() {
	select {
	case <-s.process.Done():
		return // its number may already be another's
	default:
	}
	group := openMembers(s.process.PID(), s.mode)
	defer group.close()
	_ = s.process.SignalGroup(syscall.SIGHUP) // also without /proc; a process that is gone needs none
	group.signal(syscall.SIGHUP)
	_ = s.process.SignalGroup(syscall.SIGCONT) // stopped processes see nothing before they go on
	group.signal(syscall.SIGCONT)
	wait(s.process.Done(), group, hangUpGrace)

	_ = s.process.SignalGroup(syscall.SIGKILL)
	if group.isAlive() { // then the number is still theirs, and later children can be found by it
		late := openMembers(s.process.PID(), s.mode)
		late.signal(syscall.SIGKILL)
		late.close()
	}
	group.signal(syscall.SIGKILL)
	wait(s.process.Done(), group, killGrace)
}

// wait returns when the shell and all members have ended, or after limit.
func wait(shellEnded <-chan struct{}, group members, limit time.Duration) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	until := time.Now().Add(limit)
	for _, fd := range group {
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			left := time.Until(until)
			if left <= 0 {
				return
			}
			if _, err := unix.Poll(events, int(left.Milliseconds())+1); err != unix.EINTR {
				break
			}
		}
	}
	select {
	case <-shellEnded:
	case <-deadline.C:
	}
}

// members are pidfds: they name a process and not a number, so a signal cannot reach a stranger.
type members []int

// openMembers finds the processes of the shell's session, or of its group when it has no session of
// its own. It finds none where /proc or pidfds are missing.
func openMembers(leader int, mode Mode) members {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found members
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !isMember(pid, leader, mode) {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if !isMember(pid, leader, mode) { // it ended in between, and fd may be of the next with its number
			unix.Close(fd)
			continue
		}
		found = append(found, fd)
	}
	return found
}

func isMember(pid, leader int, mode Mode) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	group, session, ok := parseStat(stat)
	if mode == PTY {
		return ok && session == leader
	}
	return ok && group == leader
}

// parseStat reads the process group and the session from /proc/PID/stat. The name before them is in
// parentheses and may itself contain any byte, so the last parenthesis ends it.
func parseStat(stat []byte) (group, session int, ok bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // state, parent, group, session, …
	if len(fields) < 4 {
		return 0, 0, false
	}
	group, groupErr := strconv.Atoi(string(fields[2]))
	session, sessionErr := strconv.Atoi(string(fields[3]))
	return group, session, groupErr == nil && sessionErr == nil
}

func (m members) signal(sig syscall.Signal) {
	for _, fd := range m {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may have ended
	}
}

func (m members) isAlive() bool {
	for _, fd := range m {
		if unix.PidfdSendSignal(fd, 0, nil, 0) == nil {
			return true
		}
	}
	return false
}

func (m members) close() {
	for _, fd := range m {
		unix.Close(fd)
	}
}
