// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAnEnvFileThatIsNoPlainFileIsAsIfMissing(t *testing.T) {
	dir := t.TempDir()
	fifo, zero := filepath.Join(dir, "fifo"), filepath.Join(dir, "zero")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", zero); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{fifo, zero, dir} {
		if got := NewEnviron([]string{"A=1"}, file).For(nil, nil)["A"]; got != "1" {
			t.Errorf("%s: got %q", file, got)
		}
	}
}
