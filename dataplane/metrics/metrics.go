// SPDX-License-Identifier: Apache-2.0

// Package metrics tells how much processor and memory the sandbox may use and does use: by its control
// group where there is one, else by the machine.
package metrics

import (
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"time"
)

// Sample is one measurement.
type Sample struct {
	CPUCount       float64 `json:"cpu_count"`
	CPUUsedPercent float64 `json:"cpu_used_pct"`
	MemTotalMiB    float64 `json:"mem_total_mib"`
	MemUsedMiB     float64 `json:"mem_used_mib"`
	Timestamp      int64   `json:"timestamp"` // ms since epoch
}

// minWindow is the shortest time processor use is measured over. The counters move in steps, and over
// less than this the steps would show.
const minWindow = 500 * time.Millisecond

// Meter measures. Processor use is the mean over a window that reaches from an earlier question to now:
// the latest one that is at least minWindow ago, or the making of the meter. So one question never
// waits, and someone who asks every second sees the last second or two.
type Meter struct {
	root string

	mu       sync.Mutex // guards all below
	baseline reading    // at least minWindow old, once there is such a reading
	latest   reading
}

// reading is the processor time used up to a moment.
type reading struct {
	at   time.Time
	busy time.Duration
}

// NewMeter reads below root, which is "/" except in tests. Processor use counts from now on.
func NewMeter(root string) *Meter { return newMeter(root, time.Now()) }

func newMeter(root string, now time.Time) *Meter {
	m := &Meter{root: root}
	m.latest = reading{at: now}
	if busy, err := m.groups().processorTime(m.allowed()); err == nil {
		m.latest.busy = busy
	}
	m.baseline = m.latest
	return m
}

// Sample measures now. It fails only where neither a control group nor /proc can be read.
func (m *Meter) Sample() (Sample, error) { return m.sample(time.Now()) }

func (m *Meter) sample(now time.Time) (Sample, error) {
	groups, allowed := m.groups(), m.allowed()
	total, used, err := groups.memory()
	if err != nil {
		return Sample{}, fmt.Errorf("measure memory: %w", err)
	}
	busy, err := groups.processorTime(allowed)
	if err != nil {
		return Sample{}, fmt.Errorf("measure processor: %w", err)
	}
	count := groups.processorCount(allowed)
	return Sample{
		CPUCount:       count,
		CPUUsedPercent: m.usedPercent(reading{at: now, busy: busy}, count),
		MemTotalMiB:    mebibytes(total),
		MemUsedMiB:     mebibytes(min(used, total)),
		Timestamp:      now.UnixMilli(),
	}, nil
}

// usedPercent compares now with the baseline, and keeps now for later questions.
func (m *Meter) usedPercent(now reading, count float64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.at.Sub(m.latest.at) >= minWindow {
		m.baseline, m.latest = m.latest, now
	}
	return percent(now.busy-m.baseline.busy, now.at.Sub(m.baseline.at), count)
}

// percent is what part of count processors was busy, in 0..100 with two digits. A counter that went
// back (the process moved to another group) counts as idle.
func percent(busy, elapsed time.Duration, count float64) float64 {
	if busy <= 0 || elapsed <= 0 || count <= 0 {
		return 0
	}
	used := 100 * busy.Seconds() / elapsed.Seconds() / count
	return math.Round(min(used, 100)*100) / 100
}

func mebibytes(n uint64) float64 { return math.Round(float64(n)/(1<<20)*100) / 100 }

// groups finds the control groups afresh: a process can be moved after its start.
func (m *Meter) groups() controlGroups { return findGroups(m.root) }

func (m *Meter) allowed() processors { return readAllowed(filepath.Join(m.root, "proc/self/status")) }
