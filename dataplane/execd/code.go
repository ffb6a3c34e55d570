// SPDX-License-Identifier: Apache-2.0

package execd

import "net/http"

// codeRoutes answers for code contexts, which this daemon does not have yet.
func (s *Server) codeRoutes(route func(string, handler)) {
	for _, pattern := range []string{
		"POST /code/context",
		"GET /code/contexts",
		"DELETE /code/contexts",
		"GET /code/contexts/{id}",
		"DELETE /code/contexts/{id}",
		"POST /code",
		"DELETE /code",
	} {
		route(pattern, noCode)
	}
}

func noCode(http.ResponseWriter, *http.Request) error {
	return failf(http.StatusNotImplemented, CodeNotSupported,
		"this daemon has no code contexts yet; run an interpreter through POST /command or POST /session")
}
