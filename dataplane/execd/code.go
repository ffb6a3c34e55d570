// SPDX-License-Identifier: Apache-2.0

package execd

func (s *Server) codeRoutes(route func(string, handler)) {}
