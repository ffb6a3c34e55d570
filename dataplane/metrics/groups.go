// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// group is a control group of this process: its directory, and how far up its ancestors can be seen.
type group struct {
	dir string // "" when there is no such group
	top string
}

// controlGroups are the groups of this process, and where to look when they do not tell.
type controlGroups struct {
	root    string
	unified group // version 2
	cpu     group // version 1, like the following
	cpuacct group
	memory1 group
}

// mount is a mounted hierarchy: the group at its root, where it is, and what it controls.
type mount struct {
	group       string
	point       string
	controllers []string // nil: the unified hierarchy
}

// findGroups puts together where the kernel says this process is and where the hierarchies are mounted.
func findGroups(root string) controlGroups {
	groups := controlGroups{root: root}
	mounts := readMounts(filepath.Join(root, "proc/self/mountinfo"))
	membership, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // none: no groups
	for line := range strings.Lines(string(membership)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[1] == "" {
			groups.unified = locate(root, mounts, "", fields[2]).ofProcess()
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			switch controller {
			case "cpu":
				groups.cpu = locate(root, mounts, controller, fields[2])
			case "cpuacct":
				groups.cpuacct = locate(root, mounts, controller, fields[2])
			case "memory":
				groups.memory1 = locate(root, mounts, controller, fields[2])
			}
		}
	}
	return groups
}

// locate finds the directory of the group path in the hierarchy of controller. Inside a container the
// path may be one of outside, of which only the mounted end is visible; when the path leads nowhere the
// mount point is the container's own group.
func locate(root string, mounts []mount, controller, path string) group {
	var fallback group
	for _, m := range mounts {
		if controller == "" && m.controllers != nil || controller != "" && !slices.Contains(m.controllers, controller) {
			continue
		}
		top := filepath.Join(root, m.point)
		if fallback.dir == "" && isDir(top) {
			fallback = group{dir: top, top: top}
		}
		below, isBelow := strings.CutPrefix(path+"/", strings.TrimSuffix(m.group, "/")+"/")
		if dir := filepath.Join(top, below); isBelow && !slices.Contains(strings.Split(path, "/"), "..") && isDir(dir) {
			return group{dir: dir, top: top}
		}
	}
	return fallback
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// readMounts lists the mounted hierarchies in /proc/self/mountinfo, which has lines of this form, with
// any number of optional fields before the lone hyphen:
//
//	36 25 0:31 /group /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
func readMounts(path string) []mount {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	var mounts []mount
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		if len(where) < 5 || len(what) < 3 {
			continue
		}
		found := mount{group: unescape(where[3]), point: unescape(where[4])}
		switch what[0] {
		case "cgroup2":
			mounts = append(mounts, found)
		case "cgroup":
			found.controllers = strings.Split(what[2], ",")
			mounts = append(mounts, found)
		}
	}
	return mounts
}

// unescape undoes the octal escapes of mountinfo: \040 is a space.
func unescape(field string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(field, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if len(after) >= 3 {
			if n, err := strconv.ParseUint(after[:3], 8, 8); err == nil {
				b.WriteByte(byte(n))
				field = after[3:]
				continue
			}
		}
		b.WriteByte('\\')
		field = after
	}
}

// ofProcess is the group that a process is in when the one of a thread is known: threads can be in groups of
// their own, which know nothing of memory and only that thread's use of processors.
func (g group) ofProcess() group {
	for g.dir != g.top {
		kind, err := os.ReadFile(filepath.Join(g.dir, "cgroup.type"))
		if err != nil || strings.TrimSpace(string(kind)) != "threaded" {
			break
		}
		g.dir = filepath.Dir(g.dir)
	}
	return g
}

// levels are the directories from the group up to the last that can be seen.
func (g group) levels() []string {
	if g.dir == "" {
		return nil
	}
	levels := []string{g.dir}
	for dir := g.dir; dir != g.top; {
		dir = filepath.Dir(dir)
		levels = append(levels, dir)
	}
	return levels
}
