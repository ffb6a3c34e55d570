// SPDX-License-Identifier: Apache-2.0

package execd

func (s *Server) metricRoutes(route func(string, handler)) {}
