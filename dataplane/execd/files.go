// SPDX-License-Identifier: Apache-2.0

package execd

func (s *Server) fileRoutes(prefix string, route func(string, handler)) {}
