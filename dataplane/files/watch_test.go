// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// watchDir watches path in the background. The function it returns waits for a change.
func watchDir(t *testing.T, path string, recursive bool) (next func(kind, path string), end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	changes, ended, ready := make(chan Change), make(chan error, 1), make(chan struct{})
	go func() {
		ended <- Watch(ctx, path, recursive, func() error { close(ready); return nil }, func(c Change) error {
			select {
			case changes <- c:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	end = func() error {
		for {
			select {
			case err := <-ended:
				ended <- err
				return err
			case <-changes:
			case <-time.After(30 * time.Second):
				t.Fatal("the watch does not end")
			}
		}
	}
	t.Cleanup(func() {
		cancel()
		end()
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	next = func(kind, path string) {
		t.Helper()
		timeout := time.After(30 * time.Second)
		for {
			select {
			case c := <-changes:
				if c == (Change{kind, path}) {
					return
				}
			case <-timeout:
				t.Fatalf("no %s of %s", kind, path)
			}
		}
	}
	return next, end
}

func TestChangesInADirectoryAreReported(t *testing.T) {
	dir := tempDir(t)
	next, _ := watchDir(t, dir, false)
	write(t, dir+"/file", "x")
	next(Created, dir+"/file")
	next(Written, dir+"/file")
	os.Chmod(dir+"/file", 0o600)
	next(ModeChanged, dir+"/file")
	os.Rename(dir+"/file", dir+"/other")
	next(Renamed, dir+"/file")
	next(Created, dir+"/other")
	os.Remove(dir + "/other")
	next(Removed, dir+"/other")
}

func TestARecursiveWatchFollowsNewAndMovedDirectories(t *testing.T) {
	dir := tempDir(t)
	write(t, dir+"/old/sub/before", "x")
	next, _ := watchDir(t, dir, true)
	write(t, dir+"/old/sub/file", "x")
	next(Created, dir+"/old/sub/file")
	write(t, dir+"/new/a/b/file", "x") // made faster than watches can follow
	next(Created, dir+"/new/a/b/file")
	write(t, dir+"/new/a/b/later", "x")
	next(Created, dir+"/new/a/b/later")
	os.Rename(dir+"/new/a", dir+"/moved")
	next(Created, dir+"/moved")
	write(t, dir+"/moved/b/again", "x")
	next(Created, dir+"/moved/b/again")
	os.RemoveAll(dir + "/old")
	next(Removed, dir+"/old")
}

func TestAWatchedFileMayBeReplaced(t *testing.T) {
	dir := tempDir(t)
	write(t, dir+"/file", "x")
	next, _ := watchDir(t, dir+"/file", false)
	write(t, dir+"/beside", "x")
	if err := upload(t, dir+"/file", "new", KeepAttributes()); err != nil {
		t.Fatal(err)
	}
	next(Created, dir+"/file")
	write(t, dir+"/file", "newer")
	next(Written, dir+"/file")
}

func TestAWatchEndsWithWhatItWatches(t *testing.T) {
	dir := tempDir(t)
	os.Mkdir(dir+"/watched", 0o755)
	_, end := watchDir(t, dir+"/watched", true)
	os.Remove(dir + "/watched")
	if err := end(); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestAWatchOfNothingIsRefused(t *testing.T) {
	err := Watch(context.Background(), tempDir(t)+"/gone", false, nil, nil)
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	err = Watch(context.Background(), "/proc/self/root", false, nil, nil)
	if !errors.Is(err, ErrMagicLink) {
		t.Errorf("got %v", err)
	}
}
