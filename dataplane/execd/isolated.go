// SPDX-License-Identifier: Apache-2.0

package execd

func (s *Server) isolatedRoutes(route func(string, handler)) {}
