// SPDX-License-Identifier: Apache-2.0

// Package terminal keeps shells that clients attach to and leave again. A shell starts when the first
// client attaches and lives on without one; what it writes is remembered in a bounded ring, so that a
// client that comes back misses nothing recent.
package terminal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"opensandbox.io/dataplane/process"
)

// What callers tell apart.
var (
	ErrNotFound  = errors.New("no such terminal")
	ErrTooMany   = errors.New("too many terminals")
	ErrInvalid   = errors.New("invalid terminal")
	ErrAttached  = errors.New("another client is attached to this terminal")
	ErrTakenOver = errors.New("another client took this terminal over")
	ErrGone      = errors.New("the terminal was deleted")
	ErrClosed    = errors.New("terminals are closed")
)

// maxTerminals bounds what terminals can hold: a ring, a shell and three descriptors each.
const maxTerminals = 256

// Spec says what a terminal runs.
type Spec struct {
	Cwd     string            // "" is the daemon's own; ~ and variables are expanded
	Command string            // "" is an interactive shell
	Env     map[string]string // on top of the environment
	Cols    uint16            // 0 is the default
	Rows    uint16            // 0 is the default
}

// Terminals holds every terminal of the daemon until it is deleted.
type Terminals struct {
	table   *process.Table
	environ *process.Environ

	mu       sync.Mutex // guards all below
	byID     map[string]*Terminal
	isClosed bool
}

// New makes an empty set. Shells start through table, in the environment of environ.
func New(table *process.Table, environ *process.Environ) *Terminals {
	return &Terminals{table: table, environ: environ, byID: map[string]*Terminal{}}
}

// Create makes a terminal without starting its shell. When there are too many it drops the one that
// ended first, and without one that has ended it fails with ErrTooMany.
func (ts *Terminals) Create(spec Spec) (*Terminal, error) {
	if strings.ContainsRune(spec.Command, 0) {
		return nil, fmt.Errorf("%w: command contains NUL", ErrInvalid)
	}
	cwd, err := ts.directory(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	spec.Cwd = cwd
	t := &Terminal{ID: newID(), table: ts.table, environ: ts.environ, spec: spec, ended: make(chan struct{})}

	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.isClosed {
		return nil, ErrClosed
	}
	if len(ts.byID) >= maxTerminals && !ts.dropOldest() {
		return nil, fmt.Errorf("%w: all %d are in use; delete one", ErrTooMany, maxTerminals)
	}
	ts.byID[t.ID] = t
	return t, nil
}

// directory expands and checks the working directory now, so that a wrong one is known at once.
func (ts *Terminals) directory(spec Spec) (string, error) {
	if spec.Cwd == "" {
		return "", nil
	}
	dir, err := process.ExpandPath(spec.Cwd, ts.environ.For(nil, spec.Env))
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("cwd: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("cwd: %s is not a directory", dir)
	}
	return dir, nil
}

// dropOldest forgets the terminal that ended first and has no client; ts.mu is held.
func (ts *Terminals) dropOldest() bool {
	var oldest *Terminal
	for _, t := range ts.byID {
		if t.isLeftover() && (oldest == nil || t.endedAt.Before(oldest.endedAt)) {
			oldest = t
		}
	}
	if oldest == nil {
		return false
	}
	delete(ts.byID, oldest.ID)
	return true
}

// Get finds a terminal.
func (ts *Terminals) Get(id string) (*Terminal, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byID[id]; t != nil {
		return t, nil
	}
	return nil, ErrNotFound
}

// Delete forgets a terminal and ends everything in it; it has ended when Delete returns.
func (ts *Terminals) Delete(id string) error {
	ts.mu.Lock()
	t := ts.byID[id]
	delete(ts.byID, id)
	ts.mu.Unlock()
	if t == nil {
		return ErrNotFound
	}
	t.end()
	return nil
}

// Close deletes every terminal, all at once, and refuses new ones.
func (ts *Terminals) Close() {
	ts.mu.Lock()
	ts.isClosed = true
	all := ts.byID
	ts.byID = map[string]*Terminal{}
	ts.mu.Unlock()
	var ending sync.WaitGroup
	for _, t := range all {
		ending.Go(t.end)
	}
	ending.Wait()
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
