// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tempDir is a temporary directory by its real path: changes refuse links.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func needsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can act as another user, make devices or mount")
	}
}

func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func symlink(t testing.TB, text, path string) string {
	t.Helper()
	if err := os.Symlink(text, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func fifo(t testing.TB, path string) string {
	t.Helper()
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// names are all paths below dir, relative to it.
func names(t testing.TB, dir string) []string {
	t.Helper()
	found := []string{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && path != dir {
			found = append(found, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// withBothResolvers runs a test with openat2 and with the walk that stands in for it.
func withBothResolvers(t *testing.T, test func(t *testing.T)) {
	defer kernelResolves.Store(kernelResolves.Load())
	if hasOpenat2() {
		t.Run("with openat2", test)
	}
	kernelResolves.Store(resolveByWalking)
	t.Run("without openat2", test)
}
