// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// OutputPipe makes a pipe for a child's output: our end is pollable, the child's end blocks as
// programs expect.
func OutputPipe() (ours, childs *os.File, err error) {
	return pipe(0)
}

// InputPipe makes a pipe for a child's input, with the ends as in OutputPipe.
func InputPipe() (childs, ours *os.File, err error) {
	ours, childs, err = pipe(1)
	return childs, ours, err
}

func pipe(ourEnd int) (ours, childs *os.File, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(fd[ourEnd], true); err != nil {
		unix.Close(fd[0])
		unix.Close(fd[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd[ourEnd]), "pipe"), os.NewFile(uintptr(fd[1-ourEnd]), "pipe"), nil
}
