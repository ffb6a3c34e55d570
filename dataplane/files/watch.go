// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

const (
	// maxWatches bounds the directories one watch keeps an eye on; the kernel's own bound is shared
	// by everybody.
	maxWatches = 8192
	// maxForeseen bounds how many found files are remembered until their own event comes.
	maxForeseen = 4096
)

// Kinds of changes.
const (
	Created     = "create"
	Written     = "write"
	Removed     = "remove"
	Renamed     = "rename"
	ModeChanged = "chmod"
	Overflowed  = "overflow" // changes were lost: look again
)

// A Change is one thing that happened to a file.
type Change struct {
	Kind, Path string
}

// Watch reports changes at path until ctx ends or path is gone: of a file, or of what is in a
// directory, with recursive at any depth. It calls ready once it misses nothing any more, and returns
// the first error of ready or report.
func Watch(ctx context.Context, path string, recursive bool, ready func() error, report func(Change) error) error {
	st, err := Stat(path, NewNames())
	if err != nil {
		return err
	}
	notifier, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("%w: the kernel gives no more watchers (fs.inotify.max_user_instances): %v", ErrTooMany, err)
	}
	defer notifier.Close()
	w := watch{ctx: ctx, notifier: notifier, root: path, report: report, watched: map[string]bool{}, foreseen: map[string]bool{}}
	if err := w.start(st.Type, recursive); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	return w.run()
}

type watch struct {
	ctx       context.Context
	notifier  *fsnotify.Watcher
	root      string
	file      string // when one file is watched: by its directory, so that replacing it is seen
	recursive bool
	report    func(Change) error
	watched   map[string]bool
	foreseen  map[string]bool // reported before their event, which is then left out
}

func (w *watch) start(kind string, recursive bool) error {
	if kind == "file" || kind == "other" {
		w.file = w.root
		return w.add(filepath.Dir(w.root))
	}
	dir, err := OpenDirectory(w.root)
	if err != nil {
		return err
	}
	defer dir.Close()
	w.recursive = recursive
	if err := w.add(w.root); err != nil || !recursive {
		return err
	}
	return w.descend(dir, func(e entry) error { return w.addFound(e) })
}

func (w *watch) descend(dir *os.File, visit func(entry) error) error {
	walk := treeWalk{ctx: w.ctx, depth: maxDepth, skipsKernel: true, visit: visit}
	return walk.walk(dir, "", 1)
}

// addFound watches a directory met on a walk; one that vanished meanwhile needs no watch.
func (w *watch) addFound(e entry) error {
	if !e.isDirectory() {
		return nil
	}
	err := w.add(e.path)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotDirectory) || errors.Is(err, ErrPermission) {
		return nil
	}
	return err
}

func (w *watch) add(path string) error {
	if w.watched[path] {
		return nil
	}
	if len(w.watched) >= maxWatches {
		return fmt.Errorf("%w: more than %d directories to watch", ErrTooMany, maxWatches)
	}
	err := w.notifier.Add(path)
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("%w: the kernel gives no more watches (fs.inotify.max_user_watches)", ErrTooMany)
	}
	if err == nil {
		w.watched[path] = true
	}
	return explain(path, err)
}

func (w *watch) run() error {
	for {
		select {
		case <-w.ctx.Done():
			return w.ctx.Err()
		case err, isOpen := <-w.notifier.Errors:
			if !isOpen {
				return nil
			}
			if err := w.lost(err); err != nil {
				return err
			}
		case event, isOpen := <-w.notifier.Events:
			if !isOpen {
				return nil
			}
			isGone, err := w.take(event)
			if isGone || err != nil {
				return err
			}
		}
	}
}

func (w *watch) lost(err error) error {
	if errors.Is(err, fsnotify.ErrNonExistentWatch) {
		return nil
	}
	return w.report(Change{Overflowed, w.root})
}

var kinds = []struct {
	op   fsnotify.Op
	kind string
}{
	{fsnotify.Create, Created}, {fsnotify.Write, Written}, {fsnotify.Remove, Removed},
	{fsnotify.Rename, Renamed}, {fsnotify.Chmod, ModeChanged},
}

// take reports an event and says whether the watch is over, because its root is gone.
func (w *watch) take(event fsnotify.Event) (isGone bool, err error) {
	event.Name = filepath.Clean(event.Name) // below / it comes with two slashes
	isAway := event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename)
	if w.file != "" {
		isGone = isAway && event.Name == filepath.Dir(w.file)
		if event.Name != w.file {
			return isGone, nil
		}
	} else {
		isGone = isAway && event.Name == w.root
	}
	if isAway {
		w.forget(event.Name)
		delete(w.foreseen, event.Name)
	}
	if event.Has(fsnotify.Create) && w.foreseen[event.Name] {
		delete(w.foreseen, event.Name)
		return isGone, nil
	}
	for _, k := range kinds {
		if event.Has(k.op) {
			if err := w.report(Change{k.kind, event.Name}); err != nil {
				return isGone, err
			}
		}
	}
	if event.Has(fsnotify.Create) && w.recursive {
		return isGone, w.enter(event.Name)
	}
	return isGone, nil
}

// forget ends the watches on a directory that went away and on those below it, whose paths are no
// longer true.
func (w *watch) forget(path string) {
	if !w.watched[path] {
		return
	}
	for watched := range w.watched {
		if watched == path || strings.HasPrefix(watched, path+"/") {
			delete(w.watched, watched)
			_ = w.notifier.Remove(watched) // the kernel may have ended it already
		}
	}
}

// enter watches a new directory, and reports what was made in it before the watch was there.
func (w *watch) enter(path string) error {
	dir, _, err := openRoot(path, true)
	if err != nil {
		return nil // not a directory, gone again, or not ours to read
	}
	defer dir.Close()
	if err := w.add(path); err != nil {
		return w.giveUp(err)
	}
	return w.descend(dir, func(e entry) error {
		if len(w.foreseen) >= maxForeseen {
			clear(w.foreseen)
		}
		w.foreseen[e.path] = true
		if err := w.report(Change{Created, e.path}); err != nil {
			return err
		}
		if err := w.addFound(e); err != nil {
			return w.giveUp(err)
		}
		return nil
	})
}

// giveUp goes on without a directory that cannot be watched, but says so.
func (w *watch) giveUp(err error) error {
	if errors.Is(err, ErrTooMany) {
		return w.report(Change{Overflowed, w.root})
	}
	return nil
}
