// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var errNoValue = errors.New("no such value")

// memory tells the tightest limit and what is used of it. Page cache that nothing has touched lately is
// not counted as used: the kernel gives it back on demand.
func (c controlGroups) memory() (total, used uint64, err error) {
	machine, err := readFields(filepath.Join(c.root, "proc/meminfo"))
	if err == nil { // else the group alone has to tell
		total = machine["MemTotal:"] << 10
		used = total - min(total, availableKiB(machine)<<10)
	}
	limits := []uint64{total}
	if current, err := c.unified.memoryUsed("memory.current", "inactive_file"); err == nil {
		used = current
		limits = append(limits, c.unified.tightest("memory.max"))
	} else if current, err := c.memory1.memoryUsed("memory.usage_in_bytes", "total_inactive_file"); err == nil {
		used = current
		limits = append(limits, c.memory1.tightest("memory.limit_in_bytes"))
	}
	total = 0
	for _, limit := range limits {
		if limit > 0 && (total == 0 || limit < total) {
			total = limit
		}
	}
	if total == 0 {
		return 0, 0, fmt.Errorf("neither a group nor /proc/meminfo tells: %w", errNoValue)
	}
	return total, used, nil
}

// availableKiB is what the machine could give to a new process; old kernels do not say it themselves.
func availableKiB(machine map[string]uint64) uint64 {
	if available, isKnown := machine["MemAvailable:"]; isKnown {
		return available
	}
	return machine["MemFree:"] + machine["Buffers:"] + machine["Cached:"]
}

func (g group) memoryUsed(usageFile, cacheField string) (uint64, error) {
	if g.dir == "" {
		return 0, errNoValue
	}
	usage, err := readNumber(filepath.Join(g.dir, usageFile))
	if err != nil {
		return 0, err
	}
	stat, _ := readFields(filepath.Join(g.dir, "memory.stat")) // without it all cache counts as used
	return usage - min(usage, stat[cacheField]), nil
}

// tightest is the smallest number in file over the levels, 0 when none has one ("max" is none).
func (g group) tightest(file string) uint64 {
	var smallest uint64
	for _, dir := range g.levels() {
		if n, err := readNumber(filepath.Join(dir, file)); err == nil && n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	return smallest
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

// readFields reads lines of a name and a number; what follows the number and other lines are ignored.
func readFields(path string) (map[string]uint64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	fields := map[string]uint64{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(words[1], 10, 64); err == nil {
			fields[words[0]] = n
		}
	}
	return fields, lines.Err()
}
