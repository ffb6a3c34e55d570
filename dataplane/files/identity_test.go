// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openToAll is a directory in which everybody may write, below directories everybody may enter.
func openToAll(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "files-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWhatAnIdentityMakesIsItsOwn(t *testing.T) {
	needsRoot(t)
	dir := openToAll(t)
	err := As(1234, 4321, nil, func() error {
		if err := MakeDirectory(dir+"/made/deep", KeepAttributes()); err != nil {
			return err
		}
		return upload(t, dir+"/made/file", "x", KeepAttributes())
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"made", "made/deep", "made/file"} {
		info, err := Stat(dir+"/"+name, NewNames())
		if err != nil || info.Owner != "1234" || info.Group != "4321" {
			t.Errorf("%s belongs to %s:%s, %v", name, info.Owner, info.Group, err)
		}
	}
}

func TestAnIdentityHasItsOwnRightsAndNoOthers(t *testing.T) {
	needsRoot(t)
	dir := openToAll(t)
	secret := write(t, dir+"/secret", "x")
	os.Chmod(secret, 0o600)
	shared := write(t, dir+"/shared", "x")
	os.Chmod(shared, 0o640)
	os.Chown(shared, 0, 777)
	try := func(uid, gid uint32, groups []uint32, path string) error {
		return As(uid, gid, groups, func() error {
			f, _, err := openRegular(path)
			if err == nil {
				f.Close()
			}
			return err
		})
	}
	if err := try(1234, 1234, nil, secret); !errors.Is(err, ErrPermission) {
		t.Errorf("a file of root: %v", err)
	}
	if err := try(1234, 1234, nil, shared); !errors.Is(err, ErrPermission) {
		t.Errorf("a file of a group it is not in: %v", err)
	}
	if err := try(1234, 1234, []uint32{1234, 777}, shared); err != nil {
		t.Errorf("a file of one of its groups: %v", err)
	}
	if err := try(1234, 777, nil, shared); err != nil {
		t.Errorf("a file of its group: %v", err)
	}
	if err := try(1234, 1234, nil, "/proc/1/environ"); !errors.Is(err, ErrPermission) {
		t.Errorf("the environment of the first process: %v", err)
	}
	if err := try(0, 1234, nil, secret); err != nil {
		t.Errorf("root in another group: %v", err)
	}
}

func TestTheOtherThreadsStayWhoTheyAre(t *testing.T) {
	needsRoot(t)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			err := As(1234, 1234, nil, func() error {
				runtime.Gosched()
				status := threadStatus(t)
				if !strings.Contains(status, "\t1234\n") || !strings.Contains(status, "CapEff:\t0000000000000000\n") {
					t.Errorf("the work was done as %s", status)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	// A thread ends a moment after its goroutine.
	for deadline := time.Now().Add(30 * time.Second); len(threadsOf(t, "1234")) > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("threads %v kept the identity", threadsOf(t, "1234"))
		}
	}
}

// threadsOf are the threads of this process that act as uid.
func threadsOf(t testing.TB, uid string) (found []string) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/status")
		if err == nil && strings.Contains(string(status), "\t"+uid+"\n") {
			found = append(found, thread.Name())
		}
	}
	return found
}

// threadStatus tells the ids and capabilities of this thread.
func threadStatus(t testing.TB) string {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	return string(status)
}

func TestAPanicComesBackToTheCaller(t *testing.T) {
	needsRoot(t)
	defer func() {
		if got := recover(); got != "boom" {
			t.Errorf("recovered %v", got)
		}
	}()
	_ = As(1234, 1234, nil, func() error { panic("boom") })
}

func TestOnlyRootCanBeSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		if err := As(uint32(os.Geteuid())+1, 0, nil, func() error { return nil }); !errors.Is(err, ErrIdentity) {
			t.Errorf("got %v", err)
		}
	}
	called := false
	err := As(uint32(os.Geteuid()), uint32(os.Getegid()), nil, func() error {
		called = true
		return nil
	})
	if err != nil || !called {
		t.Errorf("being oneself: %v", err)
	}
}

func TestTheWorkIsNotDoneOnTheFirstThread(t *testing.T) {
	for range 100 {
		onOwnThread(func() {
			if unix.Gettid() == syscall.Getpid() {
				t.Error("it would never end")
			}
		})
	}
}
