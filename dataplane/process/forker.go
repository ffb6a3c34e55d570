// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	oomScoreFile = "/proc/self/oom_score_adj"
	// oomDistance is how much sooner a child goes than the daemon when memory is short: by half of the
	// sandbox's memory.
	oomDistance = 500
	highestOOM  = 1000
)

// fork starts a program and returns its number.
type fork func(path string, argv []string, attr *syscall.ProcAttr) (int, error)

// OOMScore is how soon the kernel ends this process when memory is short. It is opened early: a daemon
// that shuts others out may no longer open files of its own in /proc.
type OOMScore struct {
	file *os.File
	own  int
}

// OpenOOMScore reads the score. Later commands are given a higher one by Confine.
func OpenOOMScore() (*OOMScore, error) {
	file, err := os.OpenFile(oomScoreFile, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	var text [16]byte
	n, err := file.Read(text[:])
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("read %s: %w", oomScoreFile, err)
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("read %s: %w", oomScoreFile, err)
	}
	return &OOMScore{file, own}, nil
}

func (s *OOMScore) set(score int) {
	// A daemon that goes first is worse than none that goes last, but nothing to end for.
	_, _ = unix.Write(int(s.file.Fd()), []byte(strconv.Itoa(score)))
}

// Confine starts everything from now on in a cgroup: tasks is its file `tasks` or `cgroup.threads`. The
// daemon itself stays outside, so that it has threads left when that cgroup is full. Children are the
// first to go when memory is short.
func (t *Table) Confine(tasks *os.File, score *OOMScore) error {
	type request struct {
		path string
		argv []string
		attr *syscall.ProcAttr
	}
	type result struct {
		pid int
		err error
	}
	requests, results := make(chan request), make(chan result)
	go func() {
		// Never unlocked: this thread is in the cgroup, and a child is where the thread is that forks it.
		runtime.LockOSThread()
		_, err := unix.Write(int(tasks.Fd()), []byte("0"))
		results <- result{err: err}
		if err != nil {
			return
		}
		for r := range requests {
			score.set(min(score.own+oomDistance, highestOOM)) // a child begins with ours
			pid, err := syscall.ForkExec(r.path, r.argv, r.attr)
			score.set(score.own)
			results <- result{pid, err}
		}
	}()
	if entered := <-results; entered.err != nil {
		return fmt.Errorf("enter the cgroup of commands: %w", entered.err)
	}
	t.fork = func(path string, argv []string, attr *syscall.ProcAttr) (int, error) {
		requests <- request{path, argv, attr} // one at a time: Start holds the lock
		done := <-results
		return done.pid, done.err
	}
	return nil
}
