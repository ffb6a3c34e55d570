// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/process"
	"opensandbox.io/dataplane/session"
)

// maxContexts bounds the interpreters a client can leave behind.
const maxContexts = 256

// What can be wrong with a call for a context.
var (
	ErrUnknown   = errors.New("no such context")
	ErrTooMany   = fmt.Errorf("there are %d contexts already; delete one", maxContexts)
	ErrNoKernel  = errors.New("this language cannot be run here")
	errCancelled = errors.New("the context was deleted before its interpreter was ready")
)

// Contexts knows every code context.
type Contexts struct {
	table    *process.Table
	environ  *process.Environ
	sessions *session.Sessions // of Bash
	dir      string            // of the runners' files
	log      *slog.Logger
	python   pythonParent

	runs      sync.WaitGroup
	compiling sync.Mutex // of a runner that comes as source

	mu       sync.Mutex
	byID     map[string]*Context
	defaults map[string]*making // by language, while the default context is looked for or made
	isClosed bool
}

// New makes an empty registry. The runners' files are written below dir when they are needed.
func New(table *process.Table, environ *process.Environ, sessions *session.Sessions, dir string, log *slog.Logger) *Contexts {
	return &Contexts{
		table: table, environ: environ, sessions: sessions, dir: dir, log: log,
		byID: map[string]*Context{}, defaults: map[string]*making{},
	}
}

// Create makes a context whose code begins in dir with envs on top of the usual environment. Its
// interpreter lives when it returns.
func (c *Contexts) Create(language, dir string, envs map[string]string) (*Context, error) {
	return c.create(command.NewID(), canonical(language), dir, envs)
}

func (c *Contexts) create(id, language, dir string, envs map[string]string) (*Context, error) {
	made := &Context{
		ID: id, Language: language, contexts: c, dir: dir, envs: envs,
		turn: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	if err := c.register(made); err != nil {
		return nil, err
	}
	err := made.open(c.environ.For(nil, envs))
	made.turn <- struct{}{} // from here on others may use it, or delete it
	if err != nil {
		_ = c.Delete(made.ID) // somebody else may have
		return nil, err
	}
	c.log.Info("context made", "context_id", made.ID, "language", language)
	return made, nil
}

func (c *Contexts) register(made *Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return command.ErrClosed
	}
	if len(c.byID) >= maxContexts {
		return ErrTooMany
	}
	c.byID[made.ID] = made
	return nil
}

// making is held by whoever makes a default context, and known while somebody wants it.
type making struct {
	sync.Mutex
	wanted int
}

// Default is the context of a language for code that names none, made on first use.
func (c *Contexts) Default(language string) (*Context, error) {
	language = canonical(language)
	id := "default-" + language
	defer c.holdDefault(language)()
	if found, err := c.Get(id); err == nil {
		return found, nil
	}
	return c.create(id, language, "", nil)
}

// holdDefault keeps others from the default context of a language until the function it returns is
// called.
func (c *Contexts) holdDefault(language string) (release func()) {
	c.mu.Lock()
	held := c.defaults[language]
	if held == nil {
		held = &making{}
		c.defaults[language] = held
	}
	held.wanted++
	c.mu.Unlock()
	held.Lock()
	return func() {
		held.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		if held.wanted--; held.wanted == 0 {
			delete(c.defaults, language)
		}
	}
}

// Get finds a context by its id.
func (c *Contexts) Get(id string) (*Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.byID[id]
	if !ok {
		return nil, ErrUnknown
	}
	return found, nil
}

// List is every context of a language, or all for "", in the order of their ids.
func (c *Contexts) List(language string) []*Context {
	language = canonical(language)
	c.mu.Lock()
	defer c.mu.Unlock()
	found := []*Context{}
	for _, one := range c.byID {
		if language == "" || one.Language == language {
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b *Context) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

// Delete ends a context with everything in its process group. A run that goes on is told so.
func (c *Contexts) Delete(id string) error {
	c.mu.Lock()
	found, ok := c.byID[id]
	delete(c.byID, id)
	c.mu.Unlock()
	if !ok {
		return ErrUnknown
	}
	close(found.gone)
	found.discard()
	return nil
}

// DeleteLanguage deletes every context of a language.
func (c *Contexts) DeleteLanguage(language string) {
	for _, one := range c.List(language) {
		_ = c.Delete(one.ID) // somebody else may have
	}
}

// Close deletes every context and waits for the runs.
func (c *Contexts) Close() {
	c.mu.Lock()
	c.isClosed = true
	c.mu.Unlock()
	var deleting sync.WaitGroup
	for _, one := range c.List("") {
		deleting.Go(func() { _ = c.Delete(one.ID) })
	}
	deleting.Wait()
	c.runs.Wait()
	c.python.close()
}
