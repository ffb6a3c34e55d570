// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Route is what the server says about one sandbox: all that is needed to reach it and to tell who may.
type Route struct {
	ID          string `json:"id"`
	Socket      string `json:"socket"` // of execd; or
	TCP         string `json:"tcp"`    // host:port of execd
	State       string `json:"state"`
	ExecdToken  string `json:"execdToken"`
	SecureToken string `json:"secureToken"` // when set, every request must bring it
	Egress      string `json:"egress"`      // address of the egress proxy of this sandbox, if it has one
	EgressToken string `json:"egressToken"`
	// KeyHashes, when there, are the only API keys that count for this sandbox: those of its owner. An
	// owner without keys has an empty list, and no key opens the sandbox.
	KeyHashes []string `json:"keyHashes"`
}

// States of a route.
const (
	stateRunning = "running"
	statePaused  = "paused"
)

// sandbox is a route in force. It never changes; a new one replaces it and may take over its link.
type sandbox struct {
	id       string
	isPaused bool
	// Sums, so that comparing takes the same time whatever the length of a guess.
	execdToken, egressToken, secureToken secret
	token                                string // of execd, as it goes on the wire
	egressAuth                           string
	hasEgress                            bool
	owners                               keyHashes
	link                                 *link
}

// secret is the sum of a token; the zero value is that of none.
type secret struct {
	sum   [sha256.Size]byte
	isSet bool
}

func newSecret(text string) secret {
	return secret{sha256.Sum256([]byte(text)), text != ""}
}

// matches is false for every guess when there is no secret.
func (s *secret) matches(guess string) bool {
	sum := sha256.Sum256([]byte(guess))
	return subtle.ConstantTimeCompare(s.sum[:], sum[:]) == 1 && s.isSet
}

// newSandbox checks a route. The link is made when before does not lead to the same place.
func newSandbox(r *Route, before *sandbox, limit time.Duration) (*sandbox, error) {
	execd, err := r.execd()
	if err != nil {
		return nil, fmt.Errorf("route %q: %w", r.ID, err)
	}
	var egress address
	if r.Egress != "" {
		if egress, err = parseAddress(r.Egress); err != nil {
			return nil, fmt.Errorf("route %q: egress: %w", r.ID, err)
		}
	}
	owners, err := parseKeyHashes(r.KeyHashes)
	if err != nil {
		return nil, fmt.Errorf("route %q: %w", r.ID, err)
	}
	s := &sandbox{
		id:          r.ID,
		isPaused:    r.State == statePaused,
		execdToken:  newSecret(r.ExecdToken),
		egressToken: newSecret(r.EgressToken),
		secureToken: newSecret(r.SecureToken),
		token:       r.ExecdToken,
		egressAuth:  r.EgressToken,
		hasEgress:   r.Egress != "",
		owners:      owners,
	}
	if before != nil && before.link.execd == execd && before.link.egress == egress && before.link.token == r.ExecdToken {
		s.link = before.link
	} else {
		s.link = newLink(execd, egress, r.ExecdToken, limit)
	}
	return s, nil
}

func (r *Route) execd() (address, error) {
	switch {
	case r.ID == "":
		return address{}, errors.New("it has no id")
	case (r.Socket == "") == (r.TCP == ""):
		return address{}, errors.New("it needs one of socket and tcp")
	case r.State != stateRunning && r.State != statePaused:
		return address{}, fmt.Errorf("unknown state %q", r.State)
	case !isHeaderValue(r.ExecdToken) || !isHeaderValue(r.EgressToken):
		return address{}, errors.New("a token has characters that no header can carry")
	case r.Socket != "":
		return address{"unix", r.Socket}, nil
	}
	return parseAddress(r.TCP)
}

// isHeaderValue keeps what we write into a head by ourselves from ending its line.
func isHeaderValue(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// table holds the routes in force.
type table struct {
	limit time.Duration // of silence, on the links it makes

	mu        sync.RWMutex
	sandboxes map[string]*sandbox
}

func (t *table) find(id string) *sandbox {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sandboxes[id]
}

// put adds or changes one route.
func (t *table) put(r *Route) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.sandboxes[r.ID]
	s, err := newSandbox(r, before, t.limit)
	if err != nil {
		return err
	}
	if t.sandboxes == nil {
		t.sandboxes = make(map[string]*sandbox)
	}
	t.sandboxes[r.ID] = s
	if before != nil && before.link != s.link {
		before.link.close()
	}
	return nil
}

// remove forgets a route; one that is unknown is already forgotten.
func (t *table) remove(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sandboxes[id]; s != nil {
		delete(t.sandboxes, id)
		s.link.close()
	}
}

// replace makes routes the whole table. Routes that are wrong are left out and named in the error, so
// that one of them does not cut off the others.
func (t *table) replace(routes []Route) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.sandboxes
	t.sandboxes = make(map[string]*sandbox, len(routes))
	var failed []error
	for i := range routes {
		s, err := newSandbox(&routes[i], before[routes[i].ID], t.limit)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		t.sandboxes[s.id] = s
	}
	for id, old := range before {
		if now := t.sandboxes[id]; now == nil || now.link != old.link {
			old.link.close()
		}
	}
	return errors.Join(failed...)
}

// takeActivity returns when bytes last moved, for each sandbox where they did since the last call.
func (t *table) takeActivity() map[string]int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var activity map[string]int64
	for id, s := range t.sandboxes {
		last := s.link.lastTraffic.Load()
		if last == s.link.reported {
			continue
		}
		s.link.reported = last
		if activity == nil {
			activity = make(map[string]int64)
		}
		activity[id] = last
	}
	return activity
}
