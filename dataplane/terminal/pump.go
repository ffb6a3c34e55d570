// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// drainLimit is the most a shell can have written that was not read when it ended: the capacity of
// the largest pipe an ordinary process can have. What follows is from processes it left behind.
const drainLimit = 1 << 20

// pump delivers what comes out of file until it ends. The deadline set when the shell has ended makes
// it take what is there without waiting for processes that still hold the other end.
func (t *Terminal) pump(sh *shell, stream Stream, file *os.File) {
	buffer := make([]byte, MaxChunk)
	for {
		n, err := file.Read(buffer)
		sh.insistOnSize()
		if n > 0 {
			t.deliver(Chunk{Stream: stream, Data: buffer[:n]})
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return // end of file, or EIO: the last holder of a terminal device is gone
		}
	}
	for left := drainLimit; left > 0; {
		n := readNow(file, buffer)
		if n <= 0 {
			return
		}
		t.deliver(Chunk{Stream: stream, Data: buffer[:n]})
		left -= n
	}
}

// readNow reads what is there and never waits. It returns 0 when there is nothing.
func readNow(file *os.File, buffer []byte) int {
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		return 0
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return 0
	}
	var n int
	err = conn.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), buffer)
		for err == unix.EINTR {
			n, err = unix.Read(int(fd), buffer)
		}
		return true
	})
	if err != nil {
		return 0
	}
	return n
}
