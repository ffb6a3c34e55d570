// SPDX-License-Identifier: Apache-2.0

// Command execd measures the execution daemon against the plainest way to do the same thing on the
// same machine, sample by sample in turn, and writes the raw samples as JSON. It judges nothing:
// benchmarks/run.py computes medians and compares them with the targets.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
)

// A result holds the raw samples of one benchmark, in unit.
type result struct {
	Name  string    `json:"name"`
	Unit  string    `json:"unit"`
	Ours  []float64 `json:"ours"`
	Other []float64 `json:"other"`
}

// settings are the sizes of a run.
type settings struct {
	execd     string // the daemon's program
	scratch   string // a directory for sockets and files, on the file system to measure
	runs      int    // samples of what takes about a millisecond
	starts    int    // samples of what needs a daemon of its own
	transfers int    // samples of each transfer
	bytes     int64  // size of one transfer
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	var (
		set     settings
		isQuick = flag.Bool("quick", false, "take few, small samples: shows that the benchmarks work, measures nothing")
		idle    = flag.Bool("idle-server", false, "serve on descriptor 3 and do nothing else (the harness starts itself this way)")
	)
	flag.StringVar(&set.execd, "execd", "build/execd", "the daemon's program")
	flag.StringVar(&set.scratch, "scratch", "", "directory for sockets and files (default: a new one in the temporary directory)")
	flag.Parse()
	if *idle {
		log.Fatal(serveIdle())
	}
	set.runs, set.starts, set.transfers, set.bytes = 500, 50, 7, 1<<30
	if *isQuick {
		set.runs, set.starts, set.transfers, set.bytes = 5, 2, 2, 1<<20
	}
	if err := run(set); err != nil {
		log.Fatal(err)
	}
}

func run(set settings) (err error) {
	if set.scratch == "" {
		if set.scratch, err = os.MkdirTemp("", "bench-execd-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(set.scratch)) }()
	}
	var results []result
	for _, measure := range []func(settings) ([]result, error){measureCommands, measureTransfers, measureDaemon} {
		more, err := measure(set)
		if err != nil {
			return err
		}
		results = append(results, more...)
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// alternate takes n samples of each side in turn, so that whatever else the machine does meets both.
func alternate(n int, ours, other func() (float64, error)) (a, b []float64, err error) {
	for i := range n {
		x, err := ours()
		if err != nil {
			return nil, nil, fmt.Errorf("sample %d of ours: %w", i, err)
		}
		y, err := other()
		if err != nil {
			return nil, nil, fmt.Errorf("sample %d of the other: %w", i, err)
		}
		a, b = append(a, x), append(b, y)
	}
	return a, b, nil
}
