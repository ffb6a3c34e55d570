// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"net/http"
	"regexp"
	"strings"
)

// traceParent is the W3C form: version, trace id, parent id, flags. Ids of zeros only are no ids.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// maxTraceState is what the W3C asks everybody to carry at least.
const maxTraceState = 512

// traceVariables is how the trace of a request reaches the process it starts. A header that is not
// well-formed is not passed on.
func traceVariables(header http.Header) map[string]string {
	parent := header.Get("Traceparent")
	ids := traceParent.FindStringSubmatch(parent)
	if ids == nil || strings.HasPrefix(parent, "ff") || strings.Trim(ids[1], "0") == "" || strings.Trim(ids[2], "0") == "" {
		return nil
	}
	vars := map[string]string{"TRACEPARENT": parent}
	if state := strings.Join(header.Values("Tracestate"), ","); state != "" && len(state) <= maxTraceState && !hasNUL(state) {
		vars["TRACESTATE"] = state
	}
	return vars
}
