# SPDX-License-Identifier: Apache-2.0
"""The routes of the lifecycle API: each takes its model, calls the method of that name, returns."""

from opensandbox_server.api import diagnostics, sandboxes, server, unbuilt

routers = (server.router, sandboxes.router, diagnostics.router, unbuilt.router)
"""Mounted bare and under /v1."""

versioned = server.versioned
"""Mounted under /v1 only."""

__all__ = ["routers", "versioned"]
