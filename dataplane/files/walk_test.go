// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func collect(dir string, found *[]string) func(Info) error {
	return func(info Info) error {
		*found = append(*found, strings.TrimPrefix(info.Path, dir+"/")+" "+info.Type)
		return nil
	}
}

func TestListingIsDepthFirstInNameOrder(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		write(t, dir+"/b/c/deep", "")
		write(t, dir+"/a", "")
		write(t, dir+"/b.txt", "")
		symlink(t, "b", dir+"/link")
		fifo(t, dir+"/pipe")
		for depth, want := range map[int][]string{
			0: nil,
			1: {"a file", "b directory", "b.txt file", "link symlink", "pipe other"},
			9: {"a file", "b directory", "b/c directory", "b/c/deep file", "b.txt file", "link symlink", "pipe other"},
		} {
			var got []string
			if err := List(context.Background(), dir, depth, collect(dir, &got)); err != nil || !slices.Equal(got, want) {
				t.Errorf("depth %d: %v, %v", depth, got, err)
			}
		}
		for path, want := range map[string]error{"/link": ErrSymlink, "/a": ErrNotDirectory, "/gone": ErrNotFound, "/a/x": ErrNotFound} {
			if err := List(context.Background(), dir+path, 1, nil); !errors.Is(err, want) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

func TestSearchMatchesBaseNamesOfFiles(t *testing.T) {
	dir := tempDir(t)
	write(t, dir+"/b/c/deep.txt", "")
	write(t, dir+"/a.txt", "")
	write(t, dir+"/dir.txt/no.md", "")
	symlink(t, "..", dir+"/b/up.txt")
	for pattern, want := range map[string][]string{
		"*.txt":    {"a.txt file", "b/c/deep.txt file", "b/up.txt symlink"},
		"**/*.txt": {"a.txt file", "b/c/deep.txt file", "b/up.txt symlink"},
		"**":       {"a.txt file", "b/c/deep.txt file", "b/up.txt symlink", "dir.txt/no.md file"},
		"?.txt":    {"a.txt file"},
		"c/*":      nil,
	} {
		var got []string
		if err := Search(context.Background(), dir, pattern, collect(dir, &got)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", pattern, got, err)
		}
	}
	var got []string
	if err := Search(context.Background(), dir+"/a.txt", "*", collect(dir, &got)); err != nil || len(got) != 1 {
		t.Errorf("a file as root: %v, %v", got, err)
	}
	for pattern, want := range map[string]error{"[": ErrInvalidPattern, "a\\": ErrInvalidPattern, "x[": ErrInvalidPattern} {
		if err := Search(context.Background(), dir, pattern, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	if err := Search(context.Background(), dir+"/gone", "*", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestSearchPassesOverWhatItMayNotRead(t *testing.T) {
	needsRoot(t)
	dir := openToAll(t)
	write(t, dir+"/closed/a", "")
	write(t, dir+"/open/b", "")
	os.Chmod(dir+"/closed", 0o700)
	var got []string
	err := As(65534, 65534, nil, func() error { return Search(context.Background(), dir, "*", collect(dir, &got)) })
	if err != nil || !slices.Equal(got, []string{"open/b file"}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestInfoTellsTheFileItself(t *testing.T) {
	dir := tempDir(t)
	path := write(t, dir+"/file", "hello")
	os.Chmod(path, 0o604)
	symlink(t, "file", dir+"/link")
	far := time.Unix(1<<40, 0)
	if err := os.Chtimes(path, far, far); err != nil {
		t.Fatal(err)
	}
	for _, stat := range []func(int, string, int) (status, error){statAt, oldStatAt} {
		st, err := stat(unix.AT_FDCWD, path, 0)
		info := st.info(path, NewNames())
		if err != nil || info.Size != 5 || info.Mode != 604 || info.Type != "file" || info.CreatedAt.IsZero() {
			t.Errorf("got %+v, %v", info, err)
		}
		if _, err := info.ModifiedAt.MarshalJSON(); err != nil {
			t.Errorf("a time far away: %v", err)
		}
	}
	if info, err := Stat(dir+"/link", NewNames()); err != nil || info.Type != "symlink" {
		t.Errorf("a link: %+v, %v", info, err)
	}
	if info, err := Stat("/tmp", NewNames()); err != nil || info.Owner != "root" || info.Group != "root" {
		t.Errorf("/tmp: %+v, %v", info, err)
	}
}

func TestAttributesAreReadAsTheContractWritesThem(t *testing.T) {
	a, err := NewAttributes(1755, "root", "0")
	if err != nil || a != (Attributes{0o1755, 0, 0}) {
		t.Errorf("%v, %v", a, err)
	}
	if a, err := NewAttributes(0, "", ""); err != nil || a != KeepAttributes() {
		t.Errorf("%v, %v", a, err)
	}
	for _, mode := range []int{8, 648, -1, 77777, 17777} {
		if _, err := NewAttributes(mode, "", ""); !errors.Is(err, ErrInvalidMode) {
			t.Errorf("mode %d: %v", mode, err)
		}
	}
	for _, name := range []string{"no-such-user", "4294967295", "-1"} {
		if _, err := NewAttributes(0, name, ""); !errors.Is(err, ErrUnknownOwner) {
			t.Errorf("owner %s: %v", name, err)
		}
		if _, err := NewAttributes(0, "", name); !errors.Is(err, ErrUnknownOwner) {
			t.Errorf("group %s: %v", name, err)
		}
	}
}

func TestOnlyNewDirectoriesGetTheMode(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		if err := os.Mkdir(dir+"/old", 0o700); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := MakeDirectory(dir+"/old/a/b", Attributes{0o711, unset, unset}); err != nil {
				t.Fatal(err)
			}
		}
		for path, want := range map[string]int{"/old": 700, "/old/a": 711, "/old/a/b": 711} {
			if info, err := Stat(dir+path, NewNames()); err != nil || info.Mode != want {
				t.Errorf("%s: %d, %v", path, info.Mode, err)
			}
		}
		write(t, dir+"/file", "")
		for path, want := range map[string]error{"/file": ErrNotDirectory, "/file/below": ErrNotDirectory} {
			if err := MakeDirectory(dir+path, KeepAttributes()); !errors.Is(err, want) {
				t.Errorf("%s: %v", path, err)
			}
		}
		if err := MakeDirectory("/", KeepAttributes()); err != nil {
			t.Errorf("/: %v", err)
		}
	})
}

func TestPermissionsOfAnythingButALinkCanBeSet(t *testing.T) {
	dir := tempDir(t)
	write(t, dir+"/file", "")
	fifo(t, dir+"/fifo")
	os.Mkdir(dir+"/dir", 0o755)
	symlink(t, "file", dir+"/link")
	for _, name := range []string{"/file", "/fifo", "/dir"} {
		if err := SetAttributes(dir+name, Attributes{0o1750, unset, unset}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if info, _ := Stat(dir+name, NewNames()); info.Mode != 1750 {
			t.Errorf("%s: mode %d", name, info.Mode)
		}
	}
	if err := SetAttributes(dir+"/link", Attributes{0o600, unset, unset}); !errors.Is(err, ErrSymlink) {
		t.Errorf("a link: %v", err)
	}
	if err := SetAttributes(dir+"/gone", KeepAttributes()); !errors.Is(err, ErrNotFound) {
		t.Errorf("nothing: %v", err)
	}
}
