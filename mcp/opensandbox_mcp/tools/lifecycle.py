# SPDX-License-Identifier: Apache-2.0
"""Making, finding, renewing, pausing and ending sandboxes."""

from datetime import timedelta
from typing import Annotated

import anyio
from pydantic import BaseModel, Field

from opensandbox import Sandbox
from opensandbox.exceptions import InvalidArgumentException
from opensandbox.models.sandboxes import (
    NetworkPolicy,
    PagedSandboxInfos,
    SandboxFilter,
    SandboxImageAuth,
    SandboxImageSpec,
    SandboxInfo,
    SandboxMetrics,
    SandboxRenewResponse,
)
from opensandbox_mcp.results import Health, HeldSandbox, Status
from opensandbox_mcp.sandboxes import Call, conversation_of, sandboxes_of
from opensandbox_mcp.toolbox import ConnectIfMissing, Effect, Family, Mode, SandboxId

family = Family()

ReadyTimeout = Annotated[float, Field(gt=0, description="How long it may take to answer.")]
PollingInterval = Annotated[int, Field(ge=0, description="Between two health checks.")]
SkipHealthCheck = Annotated[bool, Field(description="Return before the sandbox answers.")]
TimeToLive = Annotated[float, Field(gt=0, description="The sandbox ends itself after this long.")]
StringMap = dict[str, str] | None


class ListFilter(BaseModel):
    """Which sandboxes to list: any of the states, all of the metadata."""

    states: list[str] | None = None
    metadata: dict[str, str] | None = None
    page_size: int | None = Field(default=None, ge=1)
    page: int | None = Field(default=None, ge=1)


WhichOnes = Annotated[ListFilter | None, Field(description="Which ones; all when left out.")]


@family.tool(Effect.CHANGES, Mode.BY_ID)
async def sandbox_create(
    call: Call,
    image: Annotated[str, Field(description='Image reference, such as "python:3.12".')],
    auth_username: Annotated[str | None, Field(description="For a private registry.")] = None,
    auth_password: Annotated[str | None, Field(description="For a private registry.")] = None,
    timeout_seconds: TimeToLive = 600,
    ready_timeout_seconds: ReadyTimeout = 30,
    health_check_polling_interval_ms: PollingInterval = 200,
    skip_health_check: SkipHealthCheck = False,
    env: Annotated[StringMap, Field(description="Variables of every process in it.")] = None,
    metadata: Annotated[StringMap, Field(description="Labels to find it by.")] = None,
    resource: Annotated[
        StringMap, Field(description='Limits, such as {"cpu": "1", "memory": "2Gi"}.')
    ] = None,
    network_policy: Annotated[
        NetworkPolicy | None, Field(description="What it may reach; all else is refused.")
    ] = None,
    extensions: Annotated[StringMap, Field(description="Passed to the server as they are.")] = None,
    entrypoint: Annotated[list[str] | None, Field(description="Its first program.")] = None,
) -> HeldSandbox:
    """Create an isolated sandbox and return its id, which the other tools need."""
    if (auth_username is None) != (auth_password is None):
        raise InvalidArgumentException("auth_username and auth_password go together")
    auth = None
    if auth_username is not None and auth_password is not None:
        auth = SandboxImageAuth(username=auth_username, password=auth_password)
    return await hold_created(
        call,
        image=SandboxImageSpec(image, auth=auth),
        timeout=timedelta(seconds=timeout_seconds),
        ready_timeout=timedelta(seconds=ready_timeout_seconds),
        health_check_polling_interval=timedelta(milliseconds=health_check_polling_interval_ms),
        skip_health_check=skip_health_check,
        env=env,
        metadata=metadata,
        resource=resource,
        network_policy=network_policy,
        extensions=extensions,
        entrypoint=entrypoint,
    )


async def hold_created(call: Call, **arguments: object) -> HeldSandbox:
    """Create a sandbox and hold it; a call that is cancelled meanwhile leaves none."""
    sandboxes = sandboxes_of(call)
    with anyio.CancelScope(shield=True):
        sandbox = await Sandbox.create(connection_config=sandboxes.connection, **arguments)  # type: ignore[arg-type]
    try:
        await anyio.lowlevel.checkpoint_if_cancelled()
        info = await sandbox.get_info()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await sandbox.destroy()
        raise
    await sandboxes.hold(sandbox)
    return HeldSandbox(sandbox_id=sandbox.id, info=info)


@family.tool(Effect.CHANGES, Mode.BY_ID)
async def sandbox_connect(
    call: Call,
    sandbox_id: SandboxId,
    connect_timeout_seconds: ReadyTimeout = 30,
    health_check_polling_interval_ms: PollingInterval = 200,
    skip_health_check: SkipHealthCheck = False,
) -> HeldSandbox:
    """Connect to a sandbox that exists, so that the other tools may use it."""
    sandboxes = sandboxes_of(call)
    sandbox = await Sandbox.connect(
        sandbox_id,
        sandboxes.connection,
        connect_timeout=timedelta(seconds=connect_timeout_seconds),
        health_check_polling_interval=timedelta(milliseconds=health_check_polling_interval_ms),
        skip_health_check=skip_health_check,
    )
    await sandboxes.forget(sandbox_id)
    await sandboxes.hold(sandbox)
    return HeldSandbox(sandbox_id=sandbox.id, info=await sandbox.get_info())


@family.tool(Effect.DESTROYS)
async def sandbox_kill(call: Call, sandbox_id: SandboxId) -> Status:
    """End a sandbox with everything in it. A workspace is made again by the next call."""
    sandboxes = sandboxes_of(call)
    if sandboxes.workspaces is not None:
        await sandboxes.workspaces.kill(conversation_of(call))
    else:
        await sandboxes.manager.kill_sandbox(sandbox_id)
        await sandboxes.forget(sandbox_id)
    return Status(status="killed")


@family.tool(Effect.READS)
async def sandbox_get_info(call: Call, sandbox_id: SandboxId) -> SandboxInfo:
    """Tell state, image, metadata and time of expiry of a sandbox."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        return await sandboxes_of(call).manager.get_sandbox_info(found)


@family.tool(Effect.READS, Mode.BY_ID)
async def sandbox_list(
    call: Call,
    filter: WhichOnes = None,  # noqa: A002
) -> PagedSandboxInfos:
    """List sandboxes, newest first, a page at a time."""
    wanted = SandboxFilter(**filter.model_dump()) if filter else SandboxFilter()
    return await sandboxes_of(call).manager.list_sandbox_infos(wanted)


@family.tool(Effect.CHANGES)
async def sandbox_renew(
    call: Call, sandbox_id: SandboxId, timeout_seconds: TimeToLive
) -> SandboxRenewResponse:
    """Let a sandbox live for so long from now on, be it longer or shorter than before."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        lifetime = timedelta(seconds=timeout_seconds)
        return await sandboxes_of(call).manager.renew_sandbox(found, lifetime)


@family.tool(Effect.READS)
async def sandbox_get_metrics(
    call: Call, sandbox_id: SandboxId, connect_if_missing: ConnectIfMissing = False
) -> SandboxMetrics:
    """Tell what a sandbox uses of its processors and memory."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return await sandbox.get_metrics()


@family.tool(Effect.READS)
async def sandbox_healthcheck(
    call: Call, sandbox_id: SandboxId, connect_if_missing: ConnectIfMissing = False
) -> Health:
    """Tell whether a sandbox answers."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return Health(sandbox_id=sandbox.id, healthy=await sandbox.is_healthy())


@family.tool(Effect.CHANGES)
async def sandbox_pause(call: Call, sandbox_id: SandboxId) -> Status:
    """Freeze every process of a sandbox; nothing is lost."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        await sandboxes_of(call).manager.pause_sandbox(found)
    return Status(status="paused")


@family.tool(Effect.CHANGES)
async def sandbox_resume(call: Call, sandbox_id: SandboxId) -> Status:
    """Let a paused sandbox go on."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        await sandboxes_of(call).manager.resume_sandbox(found)
    return Status(status="resumed")


@family.tool(Effect.CHANGES)
async def sandbox_patch_metadata(
    call: Call,
    sandbox_id: SandboxId,
    metadata: Annotated[dict[str, str | None], Field(description="To set; null removes a key.")],
) -> SandboxInfo:
    """Set or remove labels of a sandbox."""
    async with sandboxes_of(call).id_of(call, sandbox_id) as found:
        return await sandboxes_of(call).manager.patch_sandbox_metadata(found, metadata)
