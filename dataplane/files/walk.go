// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxDepth bounds how deep a tree is walked: each level holds a descriptor open.
const maxDepth = 1000

// An entry is one thing met on a walk. Its directory is open during the visit.
type entry struct {
	place
	status
	relative string // path below the root of the walk
}

// treeWalk visits a tree depth first in name order. Links are visited and not entered, what cannot be
// read or vanishes meanwhile is passed over.
type treeWalk struct {
	ctx         context.Context
	depth       int  // levels to visit
	skipsKernel bool // do not enter /proc and /sys on the way
	visit       func(entry) error
	onTooDeep   func(path string) error // nil: deeper levels are passed over
}

func (w *treeWalk) walk(dir *os.File, relative string, level int) error {
	if level > maxDepth {
		if w.onTooDeep != nil {
			return w.onTooDeep(dir.Name())
		}
		return nil
	}
	names, err := dir.Readdirnames(-1)
	if err != nil && len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	var here status
	if w.skipsKernel {
		here, _ = statFile(dir) // a failure only means that no file system is skipped
	}
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.visitOne(dir, here, name, path.Join(relative, name), level); err != nil {
			return err
		}
	}
	return nil
}

func (w *treeWalk) visitOne(dir *os.File, here status, name, relative string, level int) error {
	at := place{dir: dir, name: name, path: join(dir.Name(), name)}
	st, err := at.stat()
	if err != nil {
		return nil
	}
	if err := w.visit(entry{at, st, relative}); err != nil {
		return err
	}
	if !st.isDirectory() || level >= w.depth {
		return nil
	}
	child, err := at.openDirectory()
	if err != nil {
		return nil
	}
	defer child.Close()
	if w.skipsKernel && st.dev != here.dev && isKernelFileSystem(child) {
		return nil
	}
	return w.walk(child, relative, level+1)
}

func isKernelFileSystem(dir *os.File) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(dir.Fd()), &fs) != nil {
		return false
	}
	return fs.Type == unix.PROC_SUPER_MAGIC || fs.Type == unix.SYSFS_MAGIC
}

// openRoot opens the directory where a walk starts. mustBeReal refuses a link as the last part.
func openRoot(root string, mustBeReal bool) (*os.File, status, error) {
	flags := unix.O_PATH
	if mustBeReal {
		flags |= unix.O_NOFOLLOW
	}
	look, err := openPath(root, flags, followLinks)
	if errors.Is(err, ErrNotDirectory) {
		err = fmt.Errorf("%s: %w", root, ErrNotFound)
	}
	if err != nil {
		return nil, status{}, err
	}
	defer look.Close()
	st, err := statFile(look)
	if err != nil {
		return nil, status{}, explain(root, err)
	}
	if st.isLink() {
		return nil, st, explainLink(root, followNothing)
	}
	if !st.isDirectory() {
		return nil, st, fmt.Errorf("%s: %w", root, ErrNotDirectory)
	}
	dir, err := place{dir: look, name: ".", path: root}.openDirectory()
	return dir, st, err
}

// List visits what is in the directory at root, down to depth levels.
func List(ctx context.Context, root string, depth int, visit func(Info) error) error {
	dir, _, err := openRoot(root, true)
	if err != nil {
		return err
	}
	defer dir.Close()
	if depth == 0 {
		return nil
	}
	names := NewNames()
	w := treeWalk{ctx: ctx, depth: depth, visit: func(e entry) error { return visit(e.info(e.path, names)) }}
	return w.walk(dir, "", 1)
}

// Search visits every file below root whose base name matches pattern. "**" matches everything, and
// "**/" in front changes nothing, since the search goes down anyway.
func Search(ctx context.Context, root, pattern string, visit func(Info) error) error {
	for strings.HasPrefix(pattern, "**/") {
		pattern = pattern[3:]
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q %w", pattern, ErrInvalidPattern)
	}
	names := NewNames()
	check := func(e entry) error {
		if matched, _ := path.Match(pattern, path.Base(e.path)); !matched || e.isDirectory() {
			return nil
		}
		return visit(e.info(e.path, names))
	}
	dir, st, err := openRoot(root, false)
	if errors.Is(err, ErrNotDirectory) {
		return check(entry{place{path: root}, st, ""})
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	w := treeWalk{ctx: ctx, depth: maxDepth, skipsKernel: true, visit: check}
	return w.walk(dir, "", 1)
}
