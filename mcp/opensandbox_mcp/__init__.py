# SPDX-License-Identifier: Apache-2.0
"""OpenSandbox as an MCP server: sandboxes, commands, files and ports as tools of an agent."""

from opensandbox_mcp._version import __version__
from opensandbox_mcp.server import build_server
from opensandbox_mcp.settings import Settings, WorkspaceSettings

__all__ = ["Settings", "WorkspaceSettings", "__version__", "build_server"]
