// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
)

// What can be wrong with a call for a command.
var (
	ErrUnknown = errors.New("no such command")
	ErrNoStdin = errors.New("command has no open stdin")
	ErrClosed  = errors.New("the daemon is shutting down")
	ErrExists  = errors.New("a command with that id was started before")
)

const (
	keepStatus   = 24 * time.Hour
	keepCommands = 20_000 // ended commands remembered at most
	startFailed  = 255    // exit code of a command that could not be started
)

// Commands starts commands and remembers them for a day after their end.
type Commands struct {
	table *process.Table
	dir   string // of journals
	limit int64  // of one journal
	log   *slog.Logger
	keep  *journal.Keeper

	waits sync.WaitGroup

	mu       sync.Mutex
	byID     map[string]*Command
	ended    []*Command // oldest first
	captures map[*Capture]struct{}
	isClosed bool
}

// New makes an empty registry whose journals are files in dir, each at most limit bytes. Those of ended
// commands go to keep.
func New(table *process.Table, dir string, limit int64, keep *journal.Keeper, log *slog.Logger) *Commands {
	return &Commands{
		table: table, dir: dir, limit: limit, log: log, keep: keep,
		byID: map[string]*Command{}, captures: map[*Capture]struct{}{},
	}
}

// Start runs request. A program that cannot be started is a command too, one that has failed. The
// reader begins at the first byte and must be closed; for a background command it is nil.
func (c *Commands) Start(request Request) (*Command, *journal.Reader, error) {
	id := cmp.Or(request.ID, NewID())
	files := filepath.Join(c.dir, NewID()) // not the id: whoever repeats one must not touch what is there
	cmd := &Command{
		ID:           id,
		IsBackground: request.IsBackground,
		Journal:      journal.New(files+".journal", c.limit),
		Started:      time.Now(),
		content:      newText(files+".text", request.text()),
		done:         make(chan struct{}),
	}
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		return nil, nil, ErrClosed
	}
	if c.byID[id] != nil {
		c.mu.Unlock()
		cmd.content.discard()
		return nil, nil, ErrExists
	}
	c.byID[id] = cmd
	c.waits.Add(1)
	c.mu.Unlock()

	var reader *journal.Reader
	if !request.IsBackground {
		reader = cmd.Journal.Read(0)
	}
	captures, err := c.launch(cmd, request)
	if err != nil {
		cmd.result = Result{ExitCode: startFailed, StartFailed: true, Reason: err.Error(), Started: cmd.Started, Ended: time.Now()}
		close(cmd.done)
		cmd.Journal.Seal()
		c.finished(cmd)
		return cmd, reader, nil
	}
	c.log.Info("command started", "command_id", id, "background", request.IsBackground)
	if c.isShut() {
		cmd.kill()
	}
	go func() {
		cmd.wait(request.Timeout, captures)
		c.finished(cmd)
	}()
	return cmd, reader, nil
}

func (c *Commands) isShut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isClosed
}

// text is the command as status shows it.
func (r Request) text() string {
	if r.Argv != nil {
		return strings.Join(r.Argv, " ")
	}
	return r.Shell
}

// finished remembers an ended command and forgets what is too old or too much.
func (c *Commands) finished(cmd *Command) {
	defer c.waits.Done()
	c.log.Info("command ended", "command_id", cmd.ID, "exit_code", cmd.result.ExitCode,
		"reason", cmd.result.Reason, "ms", cmd.result.Ended.Sub(cmd.result.Started).Milliseconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, cmd)
	c.keep.Add(cmd.Journal)
	for len(c.ended) > keepCommands || time.Since(c.ended[0].result.Ended) > keepStatus {
		oldest := c.ended[0]
		c.ended = c.ended[1:]
		oldest.Journal.Discard()
		oldest.content.discard()
		delete(c.byID, oldest.ID)
	}
}

// Get finds a command by its id.
func (c *Commands) Get(id string) (*Command, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd, ok := c.byID[id]
	if !ok {
		return nil, ErrUnknown
	}
	return cmd, nil
}

// Close kills what runs, waits for it, and removes every journal.
func (c *Commands) Close() {
	c.mu.Lock()
	c.isClosed = true
	for _, cmd := range c.byID {
		if cmd.IsRunning() {
			cmd.Journal.Discard() // whoever waits for a slow reader stops waiting
			cmd.kill()
		}
	}
	c.mu.Unlock()
	c.waits.Wait()
	for _, capture := range c.openCaptures() {
		capture.Close()
	}
	for _, cmd := range c.ended {
		cmd.Journal.Discard()
		cmd.content.discard()
	}
}

func (c *Commands) openCaptures() []*Capture {
	c.mu.Lock()
	defer c.mu.Unlock()
	var open []*Capture
	for capture := range c.captures {
		open = append(open, capture)
	}
	return open
}

var idPattern = regexp.MustCompile("^[0-9a-f]{32}$")

// IsID says whether a client may choose this id: it looks like one of ours.
func IsID(id string) bool { return idPattern.MatchString(id) }

// NewID makes an id of 32 hexadecimal digits that nobody can guess.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// text is a string that lives in a file when it is long.
type text struct {
	path  string
	short string
}

const shortText = 4 << 10

func newText(path, s string) text {
	if len(s) > shortText && os.WriteFile(path, []byte(s), 0o600) == nil {
		return text{path: path}
	}
	return text{short: s}
}

func (t text) read() string {
	if t.path == "" {
		return t.short
	}
	b, err := os.ReadFile(t.path)
	if err != nil {
		return ""
	}
	return string(b)
}

func (t text) discard() {
	if t.path != "" {
		_ = os.Remove(t.path)
	}
}
