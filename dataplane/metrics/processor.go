// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// processors are those this process may run on; nil when the kernel does not say.
type processors map[int]bool

// count is how many there are. Without a list, Go asked sched_getaffinity when the program started.
func (p processors) count() int {
	if len(p) == 0 {
		return runtime.NumCPU()
	}
	return len(p)
}

// readAllowed reads Cpus_allowed_list of /proc/self/status, which is the affinity mask and so has the
// cpuset in it. It is like "0-3,8".
func readAllowed(path string) processors {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	_, after, _ := strings.Cut(string(text), "Cpus_allowed_list:")
	list, _, _ := strings.Cut(after, "\n")
	return parseList(strings.TrimSpace(list))
}

// maxProcessors is more than Linux can have; a longer list is a broken one.
const maxProcessors = 1 << 16

func parseList(list string) processors {
	allowed := processors{}
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		if err != nil {
			return nil
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(high); err != nil {
				return nil
			}
		}
		if first < 0 || last >= maxProcessors {
			return nil
		}
		for n := first; n <= last; n++ {
			allowed[n] = true
		}
	}
	return allowed
}

// processorCount is how many processors may be used at once: the tightest quota, or all that are
// allowed. It need not be whole.
func (c controlGroups) processorCount(allowed processors) float64 {
	count := float64(allowed.count())
	for _, dir := range c.unified.levels() {
		if quota, ok := readQuota2(filepath.Join(dir, "cpu.max")); ok {
			count = min(count, quota)
		}
	}
	for _, dir := range c.cpu.levels() {
		quota, quotaErr := readNumber(filepath.Join(dir, "cpu.cfs_quota_us")) // -1, no quota, is no number here
		period, periodErr := readNumber(filepath.Join(dir, "cpu.cfs_period_us"))
		if quotaErr == nil && periodErr == nil && quota > 0 && period > 0 {
			count = min(count, float64(quota)/float64(period))
		}
	}
	return math.Round(count*1000) / 1000
}

// readQuota2 reads "QUOTA PERIOD" in microseconds, where QUOTA may be "max".
func readQuota2(path string) (processors float64, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0, false
	}
	quota, quotaErr := strconv.ParseFloat(fields[0], 64)
	period, periodErr := strconv.ParseFloat(fields[1], 64)
	if quotaErr != nil || periodErr != nil || quota <= 0 || period <= 0 {
		return 0, false
	}
	return quota / period, true
}

// processorTime is the time used so far: by the group, else by everything on the allowed processors.
func (c controlGroups) processorTime(allowed processors) (time.Duration, error) {
	if c.cpuacct.dir != "" {
		if used, err := readNumber(filepath.Join(c.cpuacct.dir, "cpuacct.usage")); err == nil {
			return time.Duration(used), nil
		}
	}
	if c.unified.dir != "" {
		stat, err := readFields(filepath.Join(c.unified.dir, "cpu.stat"))
		if used, isKnown := stat["usage_usec"]; err == nil && isKnown {
			return time.Duration(used) * time.Microsecond, nil
		}
	}
	return machineTime(filepath.Join(c.root, "proc/stat"), allowed)
}

// tick is the unit of /proc/stat: USER_HZ is 100 on every platform Go runs on.
const tick = 10 * time.Millisecond

// machineTime adds up the busy time in the lines "cpuN user nice system idle iowait irq softirq steal …".
func machineTime(path string, allowed processors) (time.Duration, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var busy time.Duration
	isKnown := false
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20) // the line of interrupts is long on large machines
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		n, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil || len(allowed) > 0 && !allowed[n] {
			continue
		}
		isKnown = true
		busy += busyTicks(fields[1:]) * tick
	}
	if !isKnown {
		return 0, fmt.Errorf("%s: %w", path, errNoValue)
	}
	return busy, lines.Err()
}

// busyTicks leaves out idle and iowait, and guest, which user has in it already.
func busyTicks(fields []string) time.Duration {
	var sum time.Duration
	for i, field := range fields[:min(len(fields), 8)] {
		if i == 3 || i == 4 {
			continue
		}
		n, _ := strconv.ParseInt(field, 10, 64) // a word that is no number counts nothing
		sum += time.Duration(n)
	}
	return sum
}
