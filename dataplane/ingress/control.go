// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"
)

const (
	// maxControlLine bounds one message; the largest is a whole table.
	maxControlLine = 256 << 20
	// reportInterval is the shortest time between two reports.
	reportInterval = time.Second
)

// message is one line from the server. Op says which fields count.
type message struct {
	Seq int64  `json:"seq"`
	Op  string `json:"op"`

	// config
	APIKeyHashes           []string          `json:"apiKeyHashes"`
	Signing                map[string]string `json:"signing"`
	AcceptsShortSignatures bool              `json:"acceptsShortSignatures"`
	Domain                 string            `json:"domain"`
	MultiTenant            bool              `json:"multiTenant"`
	RoutesByURI            bool              `json:"routesByURI"`

	Route  *Route  `json:"route"`  // put
	ID     string  `json:"id"`     // delete
	Routes []Route `json:"routes"` // replace
}

// reply is one line to the server.
type reply struct {
	Ack      *int64           `json:"ack,omitempty"`
	Error    string           `json:"error,omitempty"`
	Activity map[string]int64 `json:"activity,omitempty"`

	Streams map[string]StreamCounts `json:"streams,omitempty"`
}

// control is the channel to the server that decides.
type control struct {
	server *Server
	conn   net.Conn
	mu     sync.Mutex // one line at a time
}

// ServeControl takes what the server says into force, acknowledges each message once it is, and tells
// where there is traffic. It returns nil when the channel ends: the server is gone.
func (s *Server) ServeControl(conn net.Conn) error {
	c := &control{server: s, conn: conn}
	stop := make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() { c.report(stop) })
	defer reporter.Wait()
	defer close(stop)

	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 64<<10), maxControlLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := c.send(c.take(lines.Bytes())); err != nil {
			return nil // the next read would say the same
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("control channel: %w", err)
	}
	return nil // however it ended
}

// take puts one message in force.
func (c *control) take(line []byte) reply {
	var m message
	err := json.Unmarshal(line, &m)
	if err == nil {
		err = c.server.apply(&m)
	}
	answer := reply{Ack: &m.Seq}
	if err != nil {
		answer.Error = err.Error()
		c.server.log.Error("control message refused", "seq", m.Seq, "op", m.Op, "error", err)
	}
	return answer
}

func (s *Server) apply(m *message) error {
	switch m.Op {
	case "config":
		settings, err := newSettings(m)
		if err != nil {
			return fmt.Errorf("config: %w", err)
		}
		s.settings.Store(settings)
		s.progress.note(&s.progress.hasSettings)
		return nil
	case "put":
		if m.Route == nil {
			return errors.New("put: there is no route")
		}
		if err := s.table.put(m.Route); err != nil {
			return err
		}
		s.progress.note(&s.progress.hasTable)
		return nil
	case "delete":
		s.table.remove(m.ID)
		return nil
	case "replace":
		err := s.table.replace(m.Routes)
		s.progress.note(&s.progress.hasTable)
		return err
	}
	return fmt.Errorf("unknown op %q", m.Op)
}

// progress is how far the server has told us what to serve. Messages are applied one after another.
type progress struct {
	hasSettings, hasTable bool
	done                  chan struct{}
}

func (p *progress) note(part *bool) {
	wasDone := p.hasSettings && p.hasTable
	*part = true
	if !wasDone && p.hasSettings && p.hasTable {
		close(p.done)
	}
}

// report says every second what has changed: whom clients used, and how many streams there are.
func (c *control) report(stop <-chan struct{}) {
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	var reported map[string]StreamCounts
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		news := reply{Activity: c.server.table.takeActivity()}
		if now := c.server.streams.read(); !maps.Equal(now, reported) {
			news.Streams, reported = now, now
		}
		if (news.Activity != nil || news.Streams != nil) && c.send(news) != nil {
			return
		}
	}
}

func (c *control) send(r reply) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.conn.Write(append(line, '\n'))
	return err
}
