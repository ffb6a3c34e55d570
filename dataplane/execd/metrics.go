// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// watchInterval is the time between two measurements of a watch.
const watchInterval = time.Second

func (s *Server) metricRoutes(route func(string, handler)) {
	route("GET /metrics", s.measure)
	route("GET /metrics/watch", s.watchMetrics)
}

func (s *Server) measure(w http.ResponseWriter, _ *http.Request) error {
	sample, err := s.Metrics.Sample()
	if err != nil {
		return failf(http.StatusInternalServerError, CodeRuntime, "%v", err)
	}
	writeJSON(w, http.StatusOK, sample)
	return nil
}

// watchMetrics sends a measurement at once and then one each second, until the client goes.
func (s *Server) watchMetrics(w http.ResponseWriter, r *http.Request) error {
	ctx, end := s.connections.begin(r.Context())
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	s.sendMetrics(ctx, w, ticks.C)
	return nil
}

func (s *Server) sendMetrics(ctx context.Context, w http.ResponseWriter, ticks <-chan time.Time) {
	encoder, response := json.NewEncoder(w), http.NewResponseController(w)
	for {
		var line any
		line, err := s.Metrics.Sample()
		if err != nil {
			line = map[string]string{"error": err.Error()}
		}
		if encoder.Encode(line) != nil || response.Flush() != nil {
			return // the client has gone
		}
		select {
		case <-ticks:
		case <-ctx.Done():
			return
		}
	}
}
