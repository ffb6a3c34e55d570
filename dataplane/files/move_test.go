// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMovingMakesParentsAndReplacesNothing(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		write(t, dir+"/file", "x")
		write(t, dir+"/tree/file", "x")
		symlink(t, "gone", dir+"/link")
		for source, dest := range map[string]string{"file": "a/b/file", "tree": "a/tree", "link": "a/link"} {
			if err := Move(context.Background(), dir+"/"+source, dir+"/"+dest); err != nil {
				t.Fatal(err)
			}
		}
		if text, _ := os.Readlink(dir + "/a/link"); text != "gone" {
			t.Errorf("the link leads to %q", text)
		}
		for _, dest := range []string{"/a/tree", "/a/link", "/a/b/file", "/a"} {
			if err := Move(context.Background(), dir+"/a/b/file", dir+dest); !errors.Is(err, ErrExists) {
				t.Errorf("onto %s: %v", dest, err)
			}
		}
		if err := Move(context.Background(), dir+"/a/b/file", "/"); !errors.Is(err, ErrExists) {
			t.Errorf("onto /: %v", err)
		}
		if err := Move(context.Background(), dir+"/gone", dir+"/new/x"); !errors.Is(err, ErrNotFound) {
			t.Errorf("of nothing: %v", err)
		}
		if err := Move(context.Background(), dir+"/a", dir+"/a/sub/a"); !errors.Is(err, ErrInvalidPath) {
			t.Errorf("into itself: %v", err)
		}
		if err := Move(context.Background(), "/", dir+"/root"); !errors.Is(err, ErrMountPoint) {
			t.Errorf("of /: %v", err)
		}
		want := []string{"a", "a/b", "a/b/file", "a/link", "a/tree", "a/tree/file"}
		if got := names(t, dir); !slices.Equal(got, want) {
			t.Errorf("left: %v", got)
		}
	})
}

func TestMovingBetweenFileSystemsCopiesAll(t *testing.T) {
	needsRoot(t)
	dir := tempDir(t)
	other := dir + "/other"
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", other, "tmpfs", 0, ""); err != nil {
		t.Skipf("needs to mount: %v", err)
	}
	defer unix.Unmount(other, unix.MNT_DETACH)
	write(t, dir+"/tree/sub/file", "content")
	symlink(t, "sub/file", dir+"/tree/link")
	os.Chown(dir+"/tree/sub/file", 1234, 4321)
	os.Chmod(dir+"/tree/sub/file", 0o640)
	os.Chmod(dir+"/tree/sub", 0o500)
	long := time.Unix(1_000_000_000, 5000)
	os.Chtimes(dir+"/tree/sub/file", long, long)
	if err := Move(context.Background(), dir+"/tree", other+"/deep/tree"); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, dir), []string{"other", "other/deep", "other/deep/tree", "other/deep/tree/link", "other/deep/tree/sub", "other/deep/tree/sub/file"}; !slices.Equal(got, want) {
		t.Fatalf("there is %v", got)
	}
	info, err := Stat(other+"/deep/tree/sub/file", NewNames())
	if err != nil || info.Mode != 640 || info.Owner != "1234" || info.Group != "4321" || !info.ModifiedAt.Equal(long) {
		t.Errorf("the file became %+v, %v", info, err)
	}
	if info, _ := Stat(other+"/deep/tree/sub", NewNames()); info.Mode != 500 {
		t.Errorf("the directory became %+v", info)
	}
	fifo(t, dir+"/fifo")
	if err := Move(context.Background(), dir+"/fifo", other+"/fifo"); !errors.Is(err, ErrSpecial) {
		t.Errorf("a FIFO: %v", err)
	}
	write(t, dir+"/again", "x")
	if err := Move(context.Background(), dir+"/again", other+"/deep"); !errors.Is(err, ErrExists) {
		t.Errorf("onto what exists: %v", err)
	}
}
