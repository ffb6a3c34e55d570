// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadingFollowsOrdinaryLinks(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		write(t, dir+"/real/file", "content")
		symlink(t, "real", dir+"/relative")
		symlink(t, dir+"/real", dir+"/absolute")
		symlink(t, "../absolute/file", dir+"/real/up")
		for _, path := range []string{"relative/file", "absolute/file", "real/up", "relative/up"} {
			f, st, err := openRegular(dir + "/" + path)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			f.Close()
			if st.size != int64(len("content")) {
				t.Errorf("%s: size %d", path, st.size)
			}
		}
	})
}

func TestMagicLinksAreNeverFollowed(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		f, err := os.Open(write(t, dir+"/file", "secret"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		link := symlink(t, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), dir+"/link")
		for _, path := range []string{
			"/proc/self/root" + dir + "/file", "/proc/self/cwd/open_test.go", "/proc/self/exe",
			fmt.Sprintf("/proc/%d/root/etc/passwd", os.Getpid()), link, "/proc/thread-self/root/etc/passwd",
		} {
			f, _, err := openRegular(path)
			if err == nil {
				f.Close()
				t.Errorf("%s was opened", path)
			}
			if !errors.Is(err, ErrMagicLink) && !errors.Is(err, ErrSymlink) {
				t.Errorf("%s: %v", path, err)
			}
		}
		f2, _, err := openRegular("/proc/self/status") // self is an ordinary link
		if err != nil {
			t.Fatal(err)
		}
		f2.Close()
	})
}

func TestAChangeGoesThroughNoLinkAndSaysWhichPathToUse(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		write(t, dir+"/real/file", "content")
		symlink(t, "real", dir+"/link")
		for name, change := range map[string]func(path string) error{
			"mode":      func(p string) error { return SetAttributes(p, Attributes{0o600, unset, unset}) },
			"remove":    Remove,
			"directory": func(p string) error { return MakeDirectory(p+"/new", KeepAttributes()) },
			"replace":   func(p string) error { _, err := Replace(context.Background(), p, []byte("c"), nil); return err },
			"move":      func(p string) error { return Move(context.Background(), p, dir+"/moved") },
			"move to":   func(p string) error { return Move(context.Background(), dir+"/real", p+"2") },
			"remove directory": func(p string) error {
				return RemoveDirectory(context.Background(), p)
			},
		} {
			err := change(dir + "/link/file")
			if !errors.Is(err, ErrSymlink) || !strings.Contains(err.Error(), dir+"/link") || !strings.Contains(err.Error(), "real") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := read(t, dir+"/real/file"); got != "content" {
			t.Errorf("the file became %q", got)
		}
	})
}

func TestADotDotPartLeadsUpWithoutOpenat2Too(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		write(t, dir+"/file", "x")
		if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
			t.Fatal(err)
		}
		fd, err := openUnder(unix.AT_FDCWD, dir+"/sub/../file", unix.O_RDONLY, followLinks)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		root, err := os.Open(dir + "/sub")
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		for _, path := range []string{"../file", "/etc/passwd", "x/../../file"} {
			if fd, err := openUnder(int(root.Fd()), path, unix.O_RDONLY, stayBeneath); err == nil {
				unix.Close(fd)
				t.Errorf("%s left the directory", path)
			}
		}
	})
}

func TestALoopOfLinksEnds(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		path := tempDir(t) + "/loop"
		symlink(t, "loop", path)
		if _, _, err := openRegular(path); !errors.Is(err, ErrSymlink) {
			t.Errorf("got %v", err)
		}
	})
}

func TestWhatIsNoPlainFileIsRefusedWithoutWaiting(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		for path, want := range map[string]error{
			fifo(t, dir+"/fifo"): ErrSpecial, "/dev/zero": ErrSpecial, "/dev/null": ErrSpecial,
			dir: ErrIsDirectory, dir + "/gone": ErrNotFound, dir + "/fifo/below": ErrNotFound,
		} {
			if _, err := OpenDownload(path); !errors.Is(err, want) {
				t.Errorf("download %s: %v", path, err)
			}
		}
		u := NewUpload()
		defer u.Close()
		for path, want := range map[string]error{dir + "/fifo": ErrSpecial, "/dev/null": ErrSpecial, dir: ErrIsDirectory, "/": ErrIsDirectory} {
			if err := u.Add(path, KeepAttributes(), nil); !errors.Is(err, want) {
				t.Errorf("upload %s: %v", path, err)
			}
		}
		if _, err := Replace(context.Background(), dir+"/fifo", []byte("a"), nil); !errors.Is(err, ErrSpecial) {
			t.Errorf("replace: %v", err)
		}
	})
}

func TestAPathThatCannotBeOneIsRefused(t *testing.T) {
	for _, path := range []string{"", "a\x00b"} {
		if _, err := Absolute(path); !errors.Is(err, ErrInvalidPath) {
			t.Errorf("%q: %v", path, err)
		}
	}
	long := "/" + strings.Repeat("x", 300)
	if _, err := Stat(long, NewNames()); !errors.Is(err, ErrInvalidPath) {
		t.Errorf("a name too long: %v", err)
	}
	if path, err := Absolute("a/../b"); err != nil || !strings.HasSuffix(path, "/b") || path[0] != '/' {
		t.Errorf("relative path became %q, %v", path, err)
	}
}
