// SPDX-License-Identifier: Apache-2.0

package execd

import "net/http"

func (s *Server) ready(w http.ResponseWriter, r *http.Request) error { return nil }

func (s *Server) initialize(w http.ResponseWriter, r *http.Request) error { return nil }
