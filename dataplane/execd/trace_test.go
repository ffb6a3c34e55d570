// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

func TestOnlyAWellFormedTraceReachesTheEnvironment(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct {
		parent, state string
		want          map[string]string
	}{
		{parent, "", map[string]string{"TRACEPARENT": parent}},
		{parent, "vendor=value,other=1", map[string]string{"TRACEPARENT": parent, "TRACESTATE": "vendor=value,other=1"}},
		{parent, strings.Repeat("x", 513), map[string]string{"TRACEPARENT": parent}},
		{"", "vendor=value", nil},
		{"00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01", "", nil},
		{"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "", nil},
		{"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "", nil},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", "", nil},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", "", nil},
		{parent + "\n", "", nil},
	} {
		header := http.Header{}
		header.Set("traceparent", c.parent)
		if c.state != "" {
			header.Set("tracestate", c.state)
		}
		if got := traceVariables(header); !maps.Equal(got, c.want) {
			t.Errorf("%q, %.20q: got %v", c.parent, c.state, got)
		}
	}
}
