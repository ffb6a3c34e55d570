# SPDX-License-Identifier: Apache-2.0
"""OpenSandbox as an MCP server: sandboxes, commands, files and ports as tools of an agent.

A program rather than a library; ``opensandbox_mcp.server.build_server`` makes the server. Nothing
of it is imported here, so that ``opensandbox-mcp --help`` answers at once.
"""

from opensandbox_mcp._version import __version__

__all__ = ["__version__"]
