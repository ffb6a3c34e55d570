# SPDX-License-Identifier: Apache-2.0
"""Files and logs of sandboxes as resources.

`sandbox://ID/files/PATH`, `sandbox://ID/logs`, `sandbox://ID/events` and
`sandbox://ID/commands/EXECUTION`. In workspace mode the ID is `workspace`.
"""

import mimetypes

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from opensandbox.exceptions import SandboxApiException, SandboxException
from opensandbox_mcp.contents import image_type
from opensandbox_mcp.errors import explain
from opensandbox_mcp.sandboxes import WORKSPACE, Call, Sandboxes, sandboxes_of
from opensandbox_mcp.tools.diagnostics import newest
from opensandbox_mcp.tools.files import read_beginning

MAX_RESOURCE = 1 << 20  # bytes of a file; a longer one is read by the tools

FILE = "sandbox://{sandbox_id}/files/{+path}"
LOGS = "sandbox://{sandbox_id}/logs"
EVENTS = "sandbox://{sandbox_id}/events"
COMMAND = "sandbox://{sandbox_id}/commands/{execution_id}"


def add_resources(server: MCPServer[Sandboxes]) -> None:
    """Offer every kind of resource."""
    server.resource(FILE, name="file", description="A file of a sandbox.")(read_file)
    server.resource(LOGS, name="logs", description="The logs of a sandbox.")(read_logs)
    server.resource(EVENTS, name="events", description="What happened to a sandbox.")(read_events)
    server.resource(COMMAND, name="command", description="The output of a command.")(read_command)


async def read_file(call: Call, sandbox_id: str, path: str) -> str | bytes:
    """Return a file: as text when it is, else as bytes."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing=True) as sandbox:
        content = await read_beginning(sandbox, f"/{path}", MAX_RESOURCE + 1)
    if len(content) > MAX_RESOURCE:
        raise ResourceError(f"/{path} exceeds {MAX_RESOURCE} bytes; read parts of it by file_read.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


async def read_logs(call: Call, sandbox_id: str) -> str:
    """Return the logs of a sandbox."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        logs = await sandboxes_of(call).manager.get_diagnostic_logs(found, "all")
    return newest(logs).content or ""


async def read_events(call: Call, sandbox_id: str) -> str:
    """Return what happened to a sandbox."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        events = await sandboxes_of(call).manager.get_diagnostic_events(found, "all")
    return newest(events).content or ""


async def read_command(call: Call, sandbox_id: str, execution_id: str) -> str:
    """Return what a command wrote so far: stdout, then stderr."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing=True) as sandbox:
        replay = await sandbox.commands.replay(execution_id)
    written = replay.stdout + replay.stderr
    if len(written) > MAX_RESOURCE:
        raise ResourceError(f"it exceeds {MAX_RESOURCE} bytes; read parts of it by command_output.")
    return written.decode(errors="replace")


def listed(sandboxes: Sandboxes) -> list[str]:
    """Return the addresses worth listing: the logs of every sandbox at hand."""
    at_hand = [WORKSPACE] if sandboxes.workspaces is not None else sandboxes.held
    return [LOGS.format(sandbox_id=sandbox_id) for sandbox_id in at_hand]


def media_type(uri: str, content: str | bytes) -> str:
    """Return the media type by what a resource is and by its name."""
    if isinstance(content, bytes):
        picture = image_type(content)
        return picture or mimetypes.guess_type(uri)[0] or "application/octet-stream"
    guessed, _ = mimetypes.guess_type(uri)
    return (
        guessed if guessed and guessed.startswith(("text/", "application/json")) else "text/plain"
    )


def refusal(error: SandboxException) -> ResourceError:
    """Return what a client is told about a resource that cannot be read."""
    is_missing = isinstance(error, SandboxApiException) and error.status_code == 404
    return (ResourceNotFoundError if is_missing else ResourceError)(explain(error))
