// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"opensandbox.io/dataplane/metrics"
)

func TestMetricsAreFiveNumbersInTheirRanges(t *testing.T) {
	d := startDaemon(t, "")
	before := time.Now().UnixMilli()
	response, body := d.call("GET", "/metrics", "")
	if response.StatusCode != 200 {
		t.Fatalf("got %d %s", response.StatusCode, body)
	}
	checkMetrics(t, body, before)
}

func checkMetrics(t *testing.T, text string, before int64) {
	t.Helper()
	var got map[string]float64
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != 5 {
		t.Fatalf("%v in %s", err, text)
	}
	if got["cpu_count"] <= 0 || got["cpu_used_pct"] < 0 || got["cpu_used_pct"] > 100 ||
		got["mem_used_mib"] > got["mem_total_mib"] || got["mem_total_mib"] <= 0 || int64(got["timestamp"]) < before {
		t.Errorf("got %s", text)
	}
}

func TestWatchSendsOneLineAfterTheOtherUntilTheClientGoes(t *testing.T) {
	d := startDaemon(t, "")
	before := time.Now().UnixMilli()
	response, err := d.client.Get("http://" + d.addr + "/metrics/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // goleak sees whether the handler ends
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %d %v", response.StatusCode, response.Header)
	}
	lines := bufio.NewReader(response.Body)
	for range 2 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		checkMetrics(t, line, before)
	}
}

func TestTroubleWithMetricsIsAnErrorOnceAndALineInAWatch(t *testing.T) {
	d := startDaemon(t, "")
	d.Metrics = metrics.NewMeter(t.TempDir())
	response, body := d.call("GET", "/metrics", "")
	wantError(t, "metrics", response, body, http.StatusInternalServerError, CodeRuntime)

	watch, err := d.client.Get("http://" + d.addr + "/metrics/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	line, err := bufio.NewReader(watch.Body).ReadString('\n')
	if err != nil || watch.StatusCode != 200 || !strings.HasPrefix(line, `{"error":"`) {
		t.Errorf("got %d %s, %v", watch.StatusCode, line, err)
	}
}

func TestShutdownEndsAWatch(t *testing.T) {
	d := startDaemon(t, "")
	response, err := d.client.Get("http://" + d.addr + "/metrics/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Scan()
	d.connections.closeAll()
	for lines.Scan() {
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
}
