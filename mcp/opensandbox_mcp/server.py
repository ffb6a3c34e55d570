# SPDX-License-Identifier: Apache-2.0
"""The MCP server: all wiring on one screen."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedResourceError, UnexpectedToolError
from mcp.types import (
    CallToolResult,
    InputRequiredResult,
    Resource,
)
from pydantic import AnyUrl, ValidationError

from opensandbox.exceptions import SandboxException
from opensandbox_mcp._version import __version__
from opensandbox_mcp.errors import explain, explain_arguments
from opensandbox_mcp.resources import add_resources, listed, media_type, refusal
from opensandbox_mcp.sandboxes import Call, Sandboxes
from opensandbox_mcp.settings import Settings
from opensandbox_mcp.toolbox import build_tool
from opensandbox_mcp.tools import offered

NAME = "OpenSandbox Sandbox"

_BY_ID = (
    "Run commands and keep files in isolated sandboxes. sandbox_create makes one and returns its"
    " sandbox_id, which every other tool needs; sandbox_kill ends it when you are done. Run shell"
    " text with command_run (session_run keeps directory and variables) and code with code_run (it"
    " keeps variables and shows pictures), read and write files with file_read and file_write, and"
    " reach a server inside by sandbox_get_endpoint. Long output and files are cut; their note says"
    " how to read on."
)
_WORKSPACE = (
    "Run commands and keep files in an isolated sandbox that belongs to this conversation. It is"
    " made by the first call and ended with the conversation, unless workspace_keep is called. Run"
    " shell text with command_run (session_run keeps directory and variables) and code with"
    " code_run (it keeps variables and shows pictures), read and write files with file_read and"
    " file_write, and reach a server inside by sandbox_get_endpoint. Long output and files are cut;"
    " their note says how to read on."
)


class SandboxServer(MCPServer[Sandboxes]):
    """An MCP server whose tools and resources are sandboxes; its errors are one line each."""

    def __init__(self, settings: Settings) -> None:
        """Offer every tool and resource; nothing is connected before the server runs."""
        has_workspace = settings.workspace is not None
        super().__init__(
            NAME,
            version=__version__,
            instructions=_WORKSPACE if has_workspace else _BY_ID,
            tools=[
                build_tool(spec, has_workspace=has_workspace)
                for spec in offered(has_workspace=has_workspace)
            ],
            lifespan=self._open,
            log_level="WARNING",
            subscriptions=False,
        )
        add_resources(self)
        self.config = settings
        self.sandboxes: Sandboxes | None = None

    @asynccontextmanager
    async def _open(self, _: MCPServer[Sandboxes]) -> AsyncIterator[Sandboxes]:
        async with Sandboxes.open(self.config) as sandboxes:
            self.sandboxes = sandboxes
            yield sandboxes

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Call | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; what it could not do is said in one line."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            match error.__cause__:
                case SandboxException() as cause:
                    raise ToolError(explain(cause)) from cause
                case ValidationError() as cause if not isinstance(error, UnexpectedToolError):
                    raise ToolError(explain_arguments(name, cause)) from cause
            if self._tool_manager.get_tool(name) is None:
                raise ToolError(
                    f"[UNKNOWN_TOOL] {error}. Call one that tools/list names."
                ) from None
            raise

    async def list_resources(self) -> list[Resource]:
        """List what can be read of the sandboxes at hand."""
        uris = listed(self.sandboxes) if self.sandboxes is not None else []
        return [Resource(uri=uri, name=uri, mime_type="text/plain") for uri in uris]

    async def read_resource(
        self, uri: AnyUrl | str, context: Call | None = None
    ) -> Iterable[ReadResourceContents] | InputRequiredResult:
        """Read a resource; its media type is that of what was read."""
        try:
            contents = await super().read_resource(uri, context)
        except UnexpectedResourceError as error:
            if isinstance(error.__cause__, SandboxException):
                raise refusal(error.__cause__) from error.__cause__
            raise
        if isinstance(contents, InputRequiredResult):
            return contents
        return [replace(one, mime_type=media_type(str(uri), one.content)) for one in contents]


def build_server(settings: Settings) -> SandboxServer:
    """Make a server as the settings say."""
    return SandboxServer(settings)
