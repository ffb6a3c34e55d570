// SPDX-License-Identifier: Apache-2.0

// Command ingress measures the front door against Go's bare httputil.ReverseProxy in front of the same
// backend on a unix socket, sample by sample in turn, and writes the result as JSON.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
)

// A result is one entry of bench.json. Ratio is ours ÷ other, each the median of its samples.
type result struct {
	Name    string  `json:"name"`
	Ours    float64 `json:"ours"`
	Other   float64 `json:"other"`
	Ratio   float64 `json:"ratio"`
	Unit    string  `json:"unit"`
	Samples samples `json:"samples"`
}

type samples struct {
	Ours  []float64 `json:"ours"`
	Other []float64 `json:"other"`
}

// settings are the sizes of a run.
type settings struct {
	ingress     string // the program to measure
	count       int    // samples of each side
	requests    int    // in one sample, over all connections
	connections int
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	var set settings
	role := flag.String("role", "", "backend or proxy: what the harness starts itself as, on descriptor 3")
	socket := flag.String("socket", "", "the backend's socket, for the proxy")
	isQuick := flag.Bool("quick", false, "take few, small samples: shows that the benchmark works, measures nothing")
	flag.StringVar(&set.ingress, "ingress", "build/ingress", "the program to measure")
	flag.IntVar(&set.connections, "connections", 8, "how many clients ask at once")
	flag.Parse()
	if *role != "" {
		log.Fatal(play(*role, *socket))
	}
	set.count, set.requests = 40, 2000
	if *isQuick {
		set.count, set.requests = 2, 50
	}
	if err := run(set); err != nil {
		log.Fatal(err)
	}
}

func run(set settings) (err error) {
	dir, err := os.MkdirTemp("", "bench-ingress-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	both, err := startAll(set, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, both.stop()) }()
	for range 3 { // pools fill, code is paged in
		if _, err := both.sample(set); err != nil {
			return err
		}
	}
	r := result{Name: "ingress_vs_reverseproxy", Unit: "µs"}
	for range set.count {
		pair, err := both.sample(set)
		if err != nil {
			return err
		}
		r.Samples.Ours = append(r.Samples.Ours, pair[0])
		r.Samples.Other = append(r.Samples.Other, pair[1])
	}
	r.Ours, r.Other = median(r.Samples.Ours), median(r.Samples.Other)
	r.Ratio = r.Ours / r.Other
	return json.NewEncoder(os.Stdout).Encode([]result{r})
}

// sample measures both sides once, so that whatever else the machine does meets both.
func (t *trial) sample(set settings) (pair [2]float64, err error) {
	for i, side := range []*side{t.ours, t.other} {
		if pair[i], err = side.load(set); err != nil {
			return pair, fmt.Errorf("%s: %w", side.name, err)
		}
	}
	return pair, nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
