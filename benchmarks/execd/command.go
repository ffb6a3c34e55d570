// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// measureCommands compares a command through the daemon, its event stream read to the end, with
// starting and awaiting the same program from here.
func measureCommands(set settings) ([]result, error) {
	d, err := startExecd(set)
	if err != nil {
		return nil, err
	}
	truePath, err := exec.LookPath("true")
	if err != nil {
		return nil, err
	}
	shell, err := exec.LookPath("bash")
	if err != nil {
		return nil, err
	}
	cases := []struct {
		name, request string
		spawned       []string
	}{
		{"exec_vs_spawn", `{"argv":["true"]}`, []string{truePath}},
		{"shell_vs_spawn", `{"command":"true"}`, []string{shell, "-c", "true"}},
	}
	var results []result
	for _, c := range cases {
		r := result{Name: c.name, Unit: "ms"}
		ours := func() (float64, error) { return d.command(c.request) }
		other := func() (float64, error) { return spawn(c.spawned...) }
		if _, _, err = alternate(max(1, set.runs/10), ours, other); err == nil { // warm both up
			r.Ours, r.Other, err = alternate(set.runs, ours, other)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		results = append(results, r)
	}
	return results, d.stop()
}

// command runs one command and reads its stream to EOF. It fails unless the command succeeded.
func (d *daemon) command(request string) (float64, error) {
	began := time.Now()
	response, err := d.client.Post("http://execd/command", "application/json", strings.NewReader(request))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	stream, err := io.ReadAll(response.Body)
	took := milliseconds(began)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK || !bytes.Contains(stream, []byte(`"execution_complete"`)) {
		return 0, fmt.Errorf("%s answered %s: %s", request, response.Status, stream)
	}
	return took, nil
}

func spawn(argv ...string) (float64, error) {
	began := time.Now()
	err := exec.Command(argv[0], argv[1:]...).Run()
	return milliseconds(began), err
}

func milliseconds(since time.Time) float64 {
	return float64(time.Since(since).Nanoseconds()) / 1e6
}
