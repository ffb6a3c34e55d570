// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"sync"

	"opensandbox.io/dataplane/command"
	"opensandbox.io/dataplane/journal"
	"opensandbox.io/dataplane/process"
)

// maxSessions bounds the shells a client can leave behind.
const maxSessions = 1024

// What can be wrong with a call for a session.
var (
	ErrUnknown = errors.New("no such session")
	ErrTooMany = fmt.Errorf("there are %d sessions already; delete one", maxSessions)
)

// Sessions knows every session.
type Sessions struct {
	table   *process.Table
	environ *process.Environ
	dir     string // of journals and long scripts
	limit   int64  // of one journal
	keep    *journal.Keeper

	runs sync.WaitGroup

	mu   sync.Mutex
	byID map[string]*Session
}

// New makes an empty registry; dir, limit and keep are for journals as in command.New.
func New(table *process.Table, environ *process.Environ, dir string, limit int64, keep *journal.Keeper) *Sessions {
	return &Sessions{table: table, environ: environ, dir: dir, limit: limit, keep: keep, byID: map[string]*Session{}}
}

// Create makes a session that begins in dir. Its shell starts with the first run.
func (s *Sessions) Create(dir string) (*Session, error) {
	session := &Session{
		ID: command.NewID(), sessions: s, saved: state{dir: dir},
		turn: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	session.turn <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maxSessions {
		return nil, ErrTooMany
	}
	s.byID[session.ID] = session
	return session, nil
}

// Get finds a session by its id.
func (s *Sessions) Get(id string) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, ok := s.byID[id]
	if !ok {
		return nil, ErrUnknown
	}
	return session, nil
}

// LatestRun is the run a session does now or did last.
func (s *Sessions) LatestRun(id string) (*Run, error) {
	session, err := s.Get(id)
	if err != nil {
		return nil, err
	}
	session.mu.Lock()
	defer session.mu.Unlock()
	if session.latest == nil {
		return nil, ErrUnknown
	}
	return session.latest, nil
}

// Interrupt ends what runs in the session now.
func (s *Sessions) Interrupt(id string) error {
	session, err := s.Get(id)
	if err != nil {
		return err
	}
	return session.Interrupt()
}

// Delete ends the session and everything in its shell's process group.
func (s *Sessions) Delete(id string) error {
	s.mu.Lock()
	session, ok := s.byID[id]
	delete(s.byID, id)
	s.mu.Unlock()
	if !ok {
		return ErrUnknown
	}
	close(session.gone)
	session.forgetOutput()
	<-session.turn // a run that goes on sees gone and ends
	session.discard()
	return nil
}

// Close deletes every session.
func (s *Sessions) Close() {
	s.mu.Lock()
	ids := make([]string, 0, len(s.byID))
	for id := range s.byID {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		_ = s.Delete(id) // somebody else may have
	}
	s.runs.Wait()
}
