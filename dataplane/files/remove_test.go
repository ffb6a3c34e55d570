// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemoveTakesFilesAndLinksButNoDirectory(t *testing.T) {
	dir := tempDir(t)
	write(t, dir+"/d/file", "x")
	symlink(t, "d", dir+"/link")
	fifo(t, dir+"/fifo")
	for _, path := range []string{"link", "fifo", "gone", "d/file/below", "gone/below"} {
		if err := Remove(dir + "/" + path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{dir + "/d", "/"} {
		if err := Remove(path); !errors.Is(err, ErrIsDirectory) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"d", "d/file"}) {
		t.Errorf("left: %v", got)
	}
}

func TestADirectoryIsRemovedWithAllInItAndNothingElse(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		write(t, dir+"/keep/file", "x")
		write(t, dir+"/tree/sub/file", "x")
		fifo(t, dir+"/tree/fifo")
		symlink(t, dir+"/keep", dir+"/tree/link")
		symlink(t, dir+"/tree", dir+"/toTree")
		for _, path := range []string{dir + "/toTree", dir + "/keep/file"} {
			if err := RemoveDirectory(context.Background(), path); !errors.Is(err, ErrNotDirectory) {
				t.Errorf("%s: %v", path, err)
			}
		}
		for range 2 { // the second time it is missing
			if err := RemoveDirectory(context.Background(), dir+"/tree"); err != nil {
				t.Fatal(err)
			}
		}
		if got := names(t, dir); !slices.Equal(got, []string{"keep", "keep/file", "toTree"}) {
			t.Errorf("left: %v", got)
		}
	})
}

func TestADeepAndWideTreeIsRemovedWithFewDescriptors(t *testing.T) {
	dir := tempDir(t)
	at, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 1500 { // deeper than a path can say
		if err := unix.Mkdirat(int(at.Fd()), "sub", 0o755); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Openat(int(at.Fd()), "sub", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		at.Close()
		if err != nil {
			t.Fatal(err)
		}
		at = os.NewFile(uintptr(fd), "sub")
	}
	at.Close()
	for i := range removeBatch + 10 {
		write(t, fmt.Sprintf("%s/sub/f%d", dir, i), "")
	}
	if err := RemoveDirectory(context.Background(), dir+"/sub"); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestARootOfAFileSystemIsNotRemoved(t *testing.T) {
	if err := RemoveDirectory(context.Background(), "/"); !errors.Is(err, ErrMountPoint) {
		t.Fatalf("/: %v", err)
	}
	needsRoot(t)
	dir := tempDir(t)
	if err := os.MkdirAll(dir+"/tree/mounted", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", dir+"/tree/mounted", "tmpfs", 0, ""); err != nil {
		t.Skipf("needs to mount: %v", err)
	}
	defer unix.Unmount(dir+"/tree/mounted", unix.MNT_DETACH)
	write(t, dir+"/tree/mounted/precious", "x")
	for _, path := range []string{dir + "/tree/mounted", dir + "/tree"} {
		if err := RemoveDirectory(context.Background(), path); !errors.Is(err, ErrMountPoint) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := read(t, dir+"/tree/mounted/precious"); got != "x" {
		t.Error("what is mounted was removed")
	}
}

func TestRemovingStopsWhenTheClientGoes(t *testing.T) {
	dir := tempDir(t)
	write(t, dir+"/tree/file", "x")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := RemoveDirectory(ctx, dir+"/tree"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
