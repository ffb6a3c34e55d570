// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func put(u *Upload, path, content string, attributes Attributes) error {
	return u.Add(path, attributes, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	})
}

func upload(t testing.TB, path, content string, attributes Attributes) error {
	t.Helper()
	u := NewUpload()
	defer u.Close()
	if err := put(u, path, content, attributes); err != nil {
		return err
	}
	return u.Commit()
}

func TestFilesAppearTogetherOnCommit(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		old := write(t, dir+"/old", "old")
		u := NewUpload()
		defer u.Close()
		for _, path := range []string{old, dir + "/a/b/new"} {
			if err := put(u, path, "new", KeepAttributes()); err != nil {
				t.Fatal(err)
			}
		}
		if got := read(t, old); got != "old" {
			t.Errorf("before commit: %q", got)
		}
		if err := u.Commit(); err != nil {
			t.Fatal(err)
		}
		u.Close()
		if read(t, old) != "new" || read(t, dir+"/a/b/new") != "new" {
			t.Error("the new content is not there")
		}
		if got, want := names(t, dir), []string{"a", "a/b", "a/b/new", "old"}; !slices.Equal(got, want) {
			t.Errorf("left behind: %v", got)
		}
		if st, _ := os.Stat(dir + "/a/b/new"); st.Mode() != 0o755 {
			t.Errorf("a new file has mode %v", st.Mode())
		}
	})
}

func TestAnUploadThatIsGivenUpLeavesNothing(t *testing.T) {
	dir := tempDir(t)
	old := write(t, dir+"/old", "old")
	u := NewUpload()
	cut := errors.New("cut")
	for _, path := range []string{old, dir + "/a/b/new"} {
		err := u.Add(path, KeepAttributes(), func(w io.Writer) error {
			io.WriteString(w, "half")
			return cut
		})
		if !errors.Is(err, cut) {
			t.Errorf("got %v", err)
		}
	}
	u.Close()
	if got := names(t, dir); !slices.Equal(got, []string{"old"}) || read(t, old) != "old" {
		t.Errorf("left behind: %v", got)
	}
}

func TestReplacingKeepsModeOwnerAndHardLinks(t *testing.T) {
	dir := tempDir(t)
	path := write(t, dir+"/file", "old")
	if err := os.Chmod(path, 0o4640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 1234, 4321); err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, 0o640|os.ModeSetuid)
	}
	if err := upload(t, path, "new", KeepAttributes()); err != nil {
		t.Fatal(err)
	}
	info, err := Stat(path, NewNames())
	if err != nil || info.Mode != 4640 {
		t.Errorf("mode became %d, %v", info.Mode, err)
	}
	if os.Geteuid() == 0 && (info.Owner != "1234" || info.Group != "4321") {
		t.Errorf("owner became %s:%s", info.Owner, info.Group)
	}
	if err := os.Link(path, dir+"/other"); err != nil {
		t.Fatal(err)
	}
	if err := upload(t, path, "newer", Attributes{0o600, unset, unset}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir+"/other"); got != "newer" {
		t.Errorf("the other name has %q", got)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode became %v", st.Mode())
	}
}

func TestARunningProgramCanBeReplaced(t *testing.T) {
	dir := tempDir(t)
	if err := upload(t, dir+"/program", read(t, "/bin/sleep"), KeepAttributes()); err != nil {
		t.Skipf("no program to copy: %v", err)
	}
	p, err := os.StartProcess(dir+"/program", []string{"sleep", "60"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Wait()
	defer p.Kill()
	if err := upload(t, dir+"/program", "new", KeepAttributes()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir+"/program"); got != "new" {
		t.Errorf("got %q", got)
	}
}

func TestAFileMountedByItselfIsWrittenInPlace(t *testing.T) {
	needsRoot(t)
	dir := tempDir(t)
	source, target := write(t, dir+"/source", "a long old content"), write(t, dir+"/target", "")
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs to mount: %v", err)
	}
	defer unix.Unmount(target, unix.MNT_DETACH)
	if err := upload(t, target, "new", Attributes{0o640, unset, unset}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, source); got != "new" {
		t.Errorf("got %q", got)
	}
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("left behind: %v", got)
	}
}

func TestAWritableFileInAClosedDirectoryIsWrittenInPlace(t *testing.T) {
	needsRoot(t)
	dir := openToAll(t)
	path := write(t, dir+"/file", "a long old content")
	os.Chmod(path, 0o666)
	locked := write(t, dir+"/locked", "locked")
	os.Chmod(dir, 0o755)
	err := As(65534, 65534, nil, func() error {
		u := NewUpload()
		if err := put(u, path, "half", KeepAttributes()); err != nil {
			return err
		}
		u.Close()
		if got := read(t, path); got != "a long old content" {
			t.Errorf("an upload given up changed it to %q", got)
		}
		if err := upload(t, locked, "new", KeepAttributes()); !errors.Is(err, ErrPermission) {
			t.Errorf("a file that may not be written: %v", err)
		}
		if err := upload(t, dir+"/new", "new", KeepAttributes()); !errors.Is(err, ErrPermission) {
			t.Errorf("a new file: %v", err)
		}
		return upload(t, path, "new", KeepAttributes())
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != "new" {
		t.Errorf("got %q", got)
	}
	info, _ := Stat(path, NewNames())
	if got := names(t, dir); len(got) != 2 || info.Owner != "root" {
		t.Errorf("left behind %v, owner %s", got, info.Owner)
	}
}
