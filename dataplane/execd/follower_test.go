// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

func TestAFollowerThatReadsNothingHoldsTheProgramForABoundedTimeOnly(t *testing.T) {
	d := startDaemon(t, "")
	d.FollowerTimeout = 50 * time.Millisecond
	gate := t.TempDir() + "/go"
	text := fmt.Sprintf("until [ -e %s ]; do sleep 0.01; done; head -c 64M /dev/zero", gate)
	body, _ := json.Marshal(map[string]any{"command": text, "background": true})
	_, said := d.call("POST", "/command", string(body))
	var first struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal([]byte(strings.SplitN(said, "\n", 2)[0]), &first); err != nil {
		t.Fatal(err)
	}
	follower, err := net.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	fmt.Fprintf(follower, "GET /command/%s/output HTTP/1.1\r\nHost: execd\r\n\r\n", first.Text)
	if _, err := follower.Read(make([]byte, 1)); err != nil { // it is served, and never reads again
		t.Fatal(err)
	}
	if _, said := d.call("POST", "/command", fmt.Sprintf(`{"command":"touch %s"}`, gate)); !strings.Contains(said, "execution_complete") {
		t.Fatal(said)
	}
	running, err := d.Commands.Get(first.Text)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-running.Done():
	case <-time.After(testTimeout):
		t.Error("the program waits for a follower that reads nothing")
	}
}
