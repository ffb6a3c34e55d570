// SPDX-License-Identifier: Apache-2.0

package execd

func (s *Server) terminalRoutes(route func(string, handler)) {}
