// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"opensandbox.io/dataplane/command"
)

// A run may leave a shell that cannot report its end: after `set -n` it executes nothing, and
// functions named command, eval or export do something else. Such a shell is seen by what it does
// instead: it waits for more to do.
const (
	lookInterval = 500 * time.Millisecond
	// looksForSilence is how often it must be seen waiting; a report that it wrote is read meanwhile.
	looksForSilence = 4
)

const reasonSilent = "the shell no longer tells how a run ended (after set -n, or with a function named command, eval, printf or export); the next run gets a new one"

// isWaiting says whether the shell has done all it was told and asks for more: it reads the pipe of its
// input, which is empty. While a text runs its standard input is another. False when it cannot be seen.
func (s *shell) isWaiting() bool {
	var pipe unix.Stat_t
	unread := -1
	raw, err := s.input.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Control(func(fd uintptr) {
		if unix.Fstat(int(fd), &pipe) == nil {
			unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) // 0 and an error mean the same: look on
		}
	})
	if err != nil || unread != 0 {
		return false
	}
	proc := "/proc/" + strconv.Itoa(s.process.PID())
	input, err := os.Readlink(proc + "/fd/0")
	if err != nil || input != fmt.Sprintf("pipe:[%d]", pipe.Ino) {
		return false
	}
	call, err := os.ReadFile(proc + "/syscall")
	fields := strings.Fields(string(call))
	return err == nil && len(fields) > 1 && fields[0] == strconv.Itoa(unix.SYS_READ) && fields[1] == "0x0"
}

// silent ends a shell that cannot report, and with it the run. What it started and still lives goes on.
func (s *Session) silent() command.Result {
	_ = s.shell.input.Close() // with nothing more to read it ends, even if it executes nothing
	select {
	case <-s.shell.process.Done():
	case <-time.After(termGrace):
		_ = s.shell.process.SignalGroup(syscall.SIGKILL) // it may have ended in this moment
	}
	s.ended("")
	return command.Result{ExitCode: -1, Reason: reasonSilent}
}
