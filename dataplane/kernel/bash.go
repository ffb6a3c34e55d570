// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"sync"

	"opensandbox.io/dataplane/event"
	"opensandbox.io/dataplane/session"
)

// bash is a shell session as an interpreter. The session looks after its shell itself.
type bash struct {
	contexts *Contexts
	session  *session.Session
	env      map[string]string // of the context

	interrupting sync.Mutex // guards all below
	isGiven      bool       // the session has the cell
	isAsked      bool       // somebody wants that cell to end
}

func (c *Contexts) startBash(s start) (interpreter, error) {
	made, err := c.sessions.Create(s.dir)
	if err != nil {
		return nil, err
	}
	return &bash{contexts: c, session: made, env: s.envs}, nil
}

func (b *bash) run(run *Run, request Request) *event.Error {
	if strings.ContainsRune(request.Code, 0) {
		return &event.Error{Name: "SyntaxError", Value: "shell text cannot contain NUL"}
	}
	env := maps.Clone(request.Env)
	maps.Copy(env, b.env)
	running, reader, err := b.session.Start(context.Background(), session.Request{Shell: request.Code, Env: env})
	if err != nil {
		return &event.Error{Name: "InterpreterDied", Value: err.Error()}
	}
	defer reader.Close()
	b.passEarlyInterrupt()
	out := newText(event.Stdout, run.add)
	for {
		chunk, err := reader.Next(context.Background())
		if err != nil {
			break // its end, or the session was deleted
		}
		out.take(chunk.Data)
	}
	out.flush()
	result := running.Result()
	if result.Succeeded() {
		return nil
	}
	return &event.Error{Name: "CommandExecError", Value: strconv.Itoa(result.ExitCode), Traceback: []string{result.Reason}}
}

// interrupt ends the cell, also one that the session does not have yet.
func (b *bash) interrupt() error {
	b.interrupting.Lock()
	defer b.interrupting.Unlock()
	b.isAsked = true
	if !b.isGiven {
		return nil
	}
	return b.session.Interrupt()
}

func (b *bash) passEarlyInterrupt() {
	b.interrupting.Lock()
	defer b.interrupting.Unlock()
	b.isGiven = true
	if b.isAsked {
		_ = b.session.Interrupt() // the cell may be over
	}
}

func (b *bash) conclude() {
	b.interrupting.Lock()
	defer b.interrupting.Unlock()
	b.isGiven, b.isAsked = false, false
}

func (b *bash) kill() { _ = b.contexts.sessions.Delete(b.session.ID) } // it may be gone already

func (b *bash) pid() int { return 0 } // a session may change its shell

func (b *bash) hasEnded() bool {
	_, err := b.contexts.sessions.Get(b.session.ID)
	return err != nil
}

func (b *bash) close() { b.kill() }
