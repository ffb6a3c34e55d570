// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Unix(1_700_000_000, 0)

// copyTree makes a recorded tree one that a test can change.
func copyTree(t *testing.T, name string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	return root
}

func put(t *testing.T, root, path, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func sampleAt(t *testing.T, meter *Meter, now time.Time) Sample {
	t.Helper()
	sample, err := meter.sample(now)
	if err != nil {
		t.Fatal(err)
	}
	return sample
}

func TestRecordedTreesGiveTheLimitsAndTheUse(t *testing.T) {
	for _, tree := range []struct {
		name           string
		counter        string // what says how much processor time was used
		afterTenSecond string
		want           Sample
	}{
		{"v2", "sys/fs/cgroup/cpu.stat", "usage_usec 12500000\n", // 7.5 s of 15
			Sample{CPUCount: 1.5, CPUUsedPercent: 50, MemTotalMiB: 1024, MemUsedMiB: 300}},
		{"v2-nested", "sys/fs/cgroup/pods.slice/pod one/sandbox/cpu.stat", "usage_usec 8000000\n", // 1 s of 5
			Sample{CPUCount: 0.5, CPUUsedPercent: 20, MemTotalMiB: 512, MemUsedMiB: 50}},
		{"v1", "sys/fs/cgroup/cpu,cpuacct/cpuacct.usage", "10000000000\n", // 5 s of 20
			Sample{CPUCount: 2, CPUUsedPercent: 25, MemTotalMiB: 1024, MemUsedMiB: 200}},
		{"hybrid", "sys/fs/cgroup/cpuacct/cpuacct.usage", "18000000000\n", // 10 s of 80
			Sample{CPUCount: 8, CPUUsedPercent: 12.5, MemTotalMiB: 4096, MemUsedMiB: 1024}},
		{"none", "proc/stat", // 6 s of 30 on the three allowed ones, and 2 s on another
			"cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 300 0 50 1125 12 0 2 0 0 0\ncpu1 100 100 150 1125 12 0 2 0 0 0\ncpu4 100 0 50 1125 12 100 2 100 0 0\ncpu5 300 0 50 0 0 0 2 0 0 0\n",
			Sample{CPUCount: 3, CPUUsedPercent: 20, MemTotalMiB: 16000, MemUsedMiB: 4000}},
	} {
		t.Run(tree.name, func(t *testing.T) {
			root := copyTree(t, tree.name)
			meter := newMeter(root, start)
			put(t, root, tree.counter, tree.afterTenSecond)
			now := start.Add(10 * time.Second)
			tree.want.Timestamp = now.UnixMilli()
			if got := sampleAt(t, meter, now); got != tree.want {
				t.Errorf("got  %+v\nwant %+v", got, tree.want)
			}
		})
	}
}

func TestAPathOfOutsideOrAboveFallsBackToTheMountPoint(t *testing.T) {
	for _, path := range []string{"/kubepods/burstable/pod7/abc", "/../../other", "/.."} {
		root := copyTree(t, "v2")
		put(t, root, "proc/self/cgroup", "0::"+path+"\n")
		if got := sampleAt(t, newMeter(root, start), start); got.MemTotalMiB != 1024 || got.CPUCount != 1.5 {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}

func TestTheGroupOfAThreadIsNotThatOfTheProcess(t *testing.T) {
	root := copyTree(t, "v2")
	put(t, root, "proc/self/cgroup", "0::/commands\n")
	if err := os.Mkdir(filepath.Join(root, "sys/fs/cgroup/commands"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, root, "sys/fs/cgroup/commands/cgroup.type", "threaded\n")
	put(t, root, "sys/fs/cgroup/commands/cpu.stat", "usage_usec 1\n")
	meter := newMeter(root, start)
	put(t, root, "sys/fs/cgroup/cpu.stat", "usage_usec 12500000\n")
	got := sampleAt(t, meter, start.Add(10*time.Second))
	if got.MemTotalMiB != 1024 || got.MemUsedMiB != 300 || got.CPUCount != 1.5 || got.CPUUsedPercent != 50 {
		t.Errorf("got %+v", got)
	}
}

func TestWithoutLimitsTheMachineIsTheLimit(t *testing.T) {
	root := copyTree(t, "v2")
	put(t, root, "sys/fs/cgroup/memory.max", "max\n")
	put(t, root, "sys/fs/cgroup/cpu.max", "max 100000\n")
	if got := sampleAt(t, newMeter(root, start), start); got.MemTotalMiB != 16000 || got.CPUCount != 8 || got.MemUsedMiB != 300 {
		t.Errorf("got %+v", got)
	}
}

func TestUsedMemoryIsNeverMoreThanTheTotal(t *testing.T) {
	root := copyTree(t, "v2")
	put(t, root, "sys/fs/cgroup/memory.current", "3221225472\n")
	if got := sampleAt(t, newMeter(root, start), start); got.MemUsedMiB != got.MemTotalMiB {
		t.Errorf("got %+v", got)
	}
	put(t, root, "sys/fs/cgroup/memory.current", "1048576\n") // less than the cache it is said to hold
	if got := sampleAt(t, newMeter(root, start), start); got.MemUsedMiB != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestProcessorUseIsMeasuredOverAWindowThatIsNeverTooShort(t *testing.T) {
	root := copyTree(t, "v2")
	put(t, root, "sys/fs/cgroup/cpu.max", "100000 100000\n")
	meter := newMeter(root, start)
	use := func(at time.Duration, usec string) float64 {
		put(t, root, "sys/fs/cgroup/cpu.stat", "usage_usec "+usec+"\n")
		return sampleAt(t, meter, start.Add(at)).CPUUsedPercent
	}
	for _, step := range []struct {
		at   time.Duration
		usec string
		want float64
	}{
		{0, "5000000", 0},                           // the moment it was made: no window at all
		{time.Second, "6000000", 100},               // one second, all busy
		{1100 * time.Millisecond, "6000000", 90.91}, // too soon for a window of its own: the same baseline
		{2 * time.Second, "6500000", 50},            // since the question at 1 s
		{3 * time.Second, "6500000", 0},             // since the question at 2 s
		{3300 * time.Millisecond, "9500000", 100},   // more than can be: steps of the counter
		{4 * time.Second, "100", 0},                 // another group
	} {
		if got := use(step.at, step.usec); got != step.want {
			t.Errorf("at %v: %v, want %v", step.at, got, step.want)
		}
	}
}

func TestWithoutGroupsAndProcThereIsAnError(t *testing.T) {
	if sample, err := NewMeter(t.TempDir()).Sample(); err == nil {
		t.Errorf("got %+v", sample)
	}
	root := copyTree(t, "none")
	if err := os.Remove(filepath.Join(root, "proc/stat")); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMeter(root).Sample(); err == nil || !strings.Contains(err.Error(), "processor") {
		t.Errorf("got %v", err)
	}
}

func TestBrokenFilesAreNotTaken(t *testing.T) {
	root := copyTree(t, "v2")
	put(t, root, "proc/self/status", "Cpus_allowed_list:\t0-99999999999\n")
	put(t, root, "sys/fs/cgroup/cpu.max", "0 0\n")
	put(t, root, "sys/fs/cgroup/memory.max", "-1\n")
	put(t, root, "proc/self/mountinfo", "broken\n - \n"+"35 22 0:30 / /sys/fs/cgr\\157up ro - cgroup2 cgroup rw\n")
	got := sampleAt(t, newMeter(root, start), start)
	if got.CPUCount != float64(runtime.NumCPU()) || got.MemTotalMiB != 16000 || got.MemUsedMiB != 300 {
		t.Errorf("got %+v", got)
	}
}

func TestThisMachineGivesPlausibleNumbers(t *testing.T) {
	meter := NewMeter("/")
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			got, err := meter.Sample()
			if err != nil {
				t.Error(err)
				return
			}
			if got.CPUCount <= 0 || got.CPUCount > float64(runtime.NumCPU()) {
				t.Errorf("%v processors of %d", got.CPUCount, runtime.NumCPU())
			}
			if got.CPUUsedPercent < 0 || got.CPUUsedPercent > 100 {
				t.Errorf("%v percent", got.CPUUsedPercent)
			}
			if got.MemUsedMiB <= 0 || got.MemUsedMiB > got.MemTotalMiB {
				t.Errorf("%v of %v MiB", got.MemUsedMiB, got.MemTotalMiB)
			}
		})
	}
	asking.Wait()
}
