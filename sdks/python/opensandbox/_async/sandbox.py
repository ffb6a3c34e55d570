# SPDX-License-Identifier: Apache-2.0
"""The handle of one sandbox."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from opensandbox._failures import refused_arguments
from opensandbox._requests import whole_seconds
from opensandbox.config import ConnectionConfig
from opensandbox.exceptions import InvalidArgumentException, SandboxException
from opensandbox.models.diagnostics import DiagnosticContent
from opensandbox.models.sandboxes import (
    CreateSandboxRequest,
    CredentialProxyConfig,
    MetadataPatch,
    NetworkPolicy,
    NetworkRule,
    PlatformSpec,
    SandboxEndpoint,
    SandboxImageSpec,
    SandboxInfo,
    SandboxLifecycle,
    SandboxMetrics,
    SandboxRenewResponse,
    SnapshotInfo,
    Volume,
)

from .commands import Commands
from .connections import Connections
from .creation import Stopwatch, create_sandbox
from .diagnostics import Diagnostics
from .egress import CredentialVault
from .files import Files
from .isolation import Isolation
from .manager import SandboxManager
from .metrics import Metrics
from .readiness import (
    DEFAULT_POLLING_INTERVAL,
    DEFAULT_READY_TIMEOUT,
    MAX_PING_SECONDS,
    Deadline,
    Wait,
    wait_until_healthy,
)
from .transport import Transport, opening

if TYPE_CHECKING:
    from .codes import Codes
    from .terminals import Terminals
    from .tunnels import Tunnel

DEFAULT_TIMEOUT = timedelta(minutes=10)
DEFAULT_ENTRYPOINT = ("tail", "-f", "/dev/null")
DEFAULT_RESOURCE = {"cpu": "1", "memory": "2Gi"}


class Sandbox:
    """One sandbox: a place of its own to run commands and keep files in.

    Made by ``create``, ``connect`` or ``resume``. As a context manager it closes its connections
    when left and leaves the sandbox alive; ``destroy`` ends both.
    """

    def __init__(
        self,
        sandbox_id: str,
        transport: Transport,
        health_check: Callable[["Sandbox"], Awaitable[bool]] | None = None,
    ) -> None:
        """Hold a sandbox; most callers want ``create`` or ``connect``."""
        self.id = sandbox_id
        self._transport = transport
        self._manager = SandboxManager(transport)
        self._health_check = health_check
        self._connections = Connections(sandbox_id, transport, self._manager)

    @classmethod
    async def create(
        cls,
        image: SandboxImageSpec | str | None = None,
        *,
        snapshot_id: str | None = None,
        timeout: timedelta | None = DEFAULT_TIMEOUT,
        ready_timeout: timedelta = DEFAULT_READY_TIMEOUT,
        env: dict[str, str] | None = None,
        metadata: dict[str, str] | None = None,
        resource: dict[str, str] | None = None,
        resource_requests: dict[str, str] | None = None,
        platform: PlatformSpec | None = None,
        network_policy: NetworkPolicy | None = None,
        credential_proxy: CredentialProxyConfig | None = None,
        extensions: dict[str, str] | None = None,
        secure_access: bool = False,
        entrypoint: list[str] | None = None,
        volumes: list[Volume] | None = None,
        connection_config: ConnectionConfig | None = None,
        health_check: Callable[["Sandbox"], Awaitable[bool]] | None = None,
        health_check_polling_interval: timedelta = DEFAULT_POLLING_INTERVAL,
        skip_health_check: bool = False,
        lifecycle: SandboxLifecycle | None = None,
    ) -> Self:
        """Make a sandbox from an image or a snapshot and return when it answers.

        ``timeout`` None lives until killed. When it does not become ready it is killed again.
        """
        with refused_arguments():
            request = CreateSandboxRequest(
                image=SandboxImageSpec(image) if isinstance(image, str) else image,
                snapshot_id=snapshot_id,
                timeout=whole_seconds(timeout),
                env=env,
                metadata=metadata,
                resource_limits=resource or DEFAULT_RESOURCE,
                resource_requests=resource_requests,
                platform=platform,
                network_policy=network_policy,
                credential_proxy=credential_proxy,
                extensions=extensions,
                secure_access=secure_access,
                entrypoint=entrypoint or list(DEFAULT_ENTRYPOINT),
                volumes=volumes,
                lifecycle=lifecycle,
            )
        wait = Wait(health_check, ready_timeout, health_check_polling_interval, skip_health_check)
        return await cls._make(request, connection_config, wait)

    @classmethod
    async def create_from_template(
        cls,
        template_id: str,
        *,
        timeout: timedelta,
        ready_timeout: timedelta = DEFAULT_READY_TIMEOUT,
        metadata: dict[str, str] | None = None,
        network_policy: NetworkPolicy | None = None,
        extensions: dict[str, str] | None = None,
        connection_config: ConnectionConfig | None = None,
        health_check: Callable[["Sandbox"], Awaitable[bool]] | None = None,
        health_check_polling_interval: timedelta = DEFAULT_POLLING_INTERVAL,
        skip_health_check: bool = False,
    ) -> Self:
        """Make a sandbox from a template and return when it answers."""
        with refused_arguments():
            request = CreateSandboxRequest(
                template_id=template_id,
                timeout=whole_seconds(timeout),
                metadata=metadata,
                network_policy=network_policy,
                extensions=extensions,
            )
        wait = Wait(health_check, ready_timeout, health_check_polling_interval, skip_health_check)
        return await cls._make(request, connection_config, wait)

    @classmethod
    @asynccontextmanager
    async def temporary(
        cls, image: SandboxImageSpec | str | None = None, **options: Any
    ) -> AsyncIterator[Self]:
        """Make a sandbox, as ``create`` does, and destroy it when the block ends."""
        sandbox = await cls.create(image, **options)
        try:
            yield sandbox
        finally:
            await sandbox.destroy()

    @classmethod
    async def connect(
        cls,
        sandbox_id: str,
        connection_config: ConnectionConfig | None = None,
        health_check: Callable[["Sandbox"], Awaitable[bool]] | None = None,
        connect_timeout: timedelta = DEFAULT_READY_TIMEOUT,
        health_check_polling_interval: timedelta = DEFAULT_POLLING_INTERVAL,
        skip_health_check: bool = False,
    ) -> Self:
        """Hold a sandbox that exists and return when it answers."""
        wait = Wait(health_check, connect_timeout, health_check_polling_interval, skip_health_check)
        return await cls._hold(sandbox_id, connection_config, wait, is_paused=False)

    @classmethod
    async def resume(
        cls,
        sandbox_id: str,
        connection_config: ConnectionConfig | None = None,
        health_check: Callable[["Sandbox"], Awaitable[bool]] | None = None,
        resume_timeout: timedelta = DEFAULT_READY_TIMEOUT,
        health_check_polling_interval: timedelta = DEFAULT_POLLING_INTERVAL,
        skip_health_check: bool = False,
    ) -> Self:
        """Let a paused sandbox go on, hold it, and return when it answers."""
        wait = Wait(health_check, resume_timeout, health_check_polling_interval, skip_health_check)
        return await cls._hold(sandbox_id, connection_config, wait, is_paused=True)

    @property
    def origin(self) -> str:
        """What the sandbox was made from, where the server said so."""
        return self._connections.origin

    @property
    def connection_config(self) -> ConnectionConfig:
        """How this sandbox is reached."""
        return self._transport.config

    @property
    def files(self) -> Files:
        """Its files."""
        return self._files

    def files_with_identity(self, uid: int, gid: int) -> Files:
        """Its files, worked on as another user and group."""
        if uid < 0 or gid < 0:
            raise InvalidArgumentException("uid and gid must not be negative")
        return Files(self._execd, f"/v1/filesystem/{uid:d}/{gid:d}")

    @property
    def commands(self) -> Commands:
        """Its commands."""
        return self._commands

    @property
    def codes(self) -> "Codes":
        """Code in interpreters that stay."""
        from .codes import Codes

        return Codes(self._execd)

    @property
    def metrics(self) -> Metrics:
        """What it uses."""
        return self._metrics

    @property
    def isolation(self) -> Isolation:
        """Shells in it that see less of it."""
        return Isolation(self._execd)

    @property
    def diagnostics(self) -> Diagnostics:
        """Logs and events."""
        return Diagnostics(self._manager)

    @property
    def credential_vault(self) -> CredentialVault:
        """Secrets its requests get on their way."""
        return CredentialVault(self._connections.find_egress)

    @property
    def terminals(self) -> "Terminals":
        """Its terminals."""
        from .terminals import Terminals  # it brings a library that few programs need

        return Terminals(self._execd)

    async def open_tunnel(self, port: int) -> "Tunnel":
        """Connect to what listens on a port of the sandbox, whatever it speaks."""
        from .tunnels import open_tunnel

        return await open_tunnel(self._execd, port)

    async def get_info(self) -> SandboxInfo:
        """Return the sandbox as the server sees it now."""
        return await self._manager.get_sandbox_info(self.id)

    async def get_endpoint(self, port: int) -> SandboxEndpoint:
        """Return the endpoint of a port; it is remembered for a while."""
        return await self._connections.find_endpoint(port)

    async def get_signed_endpoint(self, port: int, expires: int) -> SandboxEndpoint:
        """Return an endpoint of a port that needs no token until ``expires``, in Unix seconds."""
        return await self._manager.get_sandbox_endpoint(self.id, port, expires=expires)

    async def get_metrics(self) -> SandboxMetrics:
        """Return what the sandbox uses now."""
        return await self._metrics.get_metrics(self.id)

    async def get_diagnostic_logs(self, scope: str) -> DiagnosticContent:
        """Return the logs of a scope: ``container`` or ``all``."""
        return await self._manager.get_diagnostic_logs(self.id, scope)

    async def get_diagnostic_events(self, scope: str) -> DiagnosticContent:
        """Return the events of a scope: ``runtime`` or ``all``."""
        return await self._manager.get_diagnostic_events(self.id, scope)

    async def renew(self, timeout: timedelta) -> SandboxRenewResponse:
        """Let the sandbox live for ``timeout`` from now, be it longer or shorter than before."""
        return await self._manager.renew_sandbox(self.id, timeout)

    async def patch_metadata(self, patch: MetadataPatch) -> SandboxInfo:
        """Set metadata; None removes a key."""
        return await self._manager.patch_sandbox_metadata(self.id, patch)

    async def create_snapshot(self, name: str | None = None) -> SnapshotInfo:
        """Begin to keep its file system; the manager tells when the snapshot is ready."""
        return await self._manager.create_snapshot(self.id, name)

    async def get_egress_policy(self) -> NetworkPolicy:
        """Return what may go out."""
        return await self._connections.egress.get_policy()

    async def patch_egress_rules(self, rules: list[NetworkRule]) -> None:
        """Put rules in front; one for a target that has a rule already replaces it."""
        await self._connections.egress.patch_rules(rules)

    async def delete_egress_rules(self, targets: list[str]) -> None:
        """Remove the rules of these targets; those without one are no error."""
        await self._connections.egress.delete_rules(targets)

    async def pause(self) -> None:
        """Freeze every process. ``Sandbox.resume`` undoes it."""
        self._connections.forget()
        await self._manager.pause_sandbox(self.id)

    async def kill(self) -> None:
        """End the sandbox; nothing of it is left. Connections stay open."""
        self._connections.forget()
        await self._manager.kill_sandbox(self.id)

    async def close(self) -> None:
        """Close the connections. The sandbox goes on."""
        await self._transport.close()

    async def destroy(self) -> None:
        """End the sandbox and close the connections, the latter even when the former fails."""
        try:
            await self.kill()
        finally:
            await self.close()

    async def is_healthy(self) -> bool:
        """Whether the sandbox answers, or passes its own health check."""
        try:
            return await self._check_health(MAX_PING_SECONDS)
        except SandboxException:
            return False

    async def check_ready(self, timeout: timedelta, polling_interval: timedelta) -> None:
        """Return when the sandbox is healthy; raise when it is not within ``timeout``."""
        await wait_until_healthy(Deadline(self.id, timeout, polling_interval), self._check_health)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @classmethod
    async def _make(
        cls, request: CreateSandboxRequest, config: ConnectionConfig | None, wait: Wait
    ) -> Self:
        async with opening(config) as transport:
            stopwatch = Stopwatch(transport, request)
            created = await create_sandbox(transport, request)
            sandbox = cls(created.id, transport, wait.health_check)
            try:
                sandbox._connections.learn(request, created)
                await sandbox._open(wait.after(created))
            except BaseException:
                with suppress(SandboxException):  # what went wrong first is what matters
                    await sandbox.kill()
                raise
            stopwatch.report(sandbox.id)
        return sandbox

    @classmethod
    async def _hold(
        cls, sandbox_id: str, config: ConnectionConfig | None, wait: Wait, *, is_paused: bool
    ) -> Self:
        async with opening(config) as transport:
            sandbox = cls(str(sandbox_id), transport, wait.health_check)
            if is_paused:
                await sandbox._manager.resume_sandbox(sandbox.id)
            await sandbox._open(wait)
        return sandbox

    async def _open(self, wait: Wait) -> None:
        deadline = Deadline(self.id, wait.timeout, wait.polling_interval)
        self._execd = await self._connections.find_execd(deadline)
        self._files = Files(self._execd)
        self._commands = Commands(self._execd)
        self._metrics = Metrics(self._execd)
        if not wait.is_skipped:
            await wait_until_healthy(deadline, self._check_health)

    async def _check_health(self, seconds: float) -> bool:
        if self._health_check is not None:
            return await self._health_check(self)
        await self._execd.send("GET", "/ping", once_within=seconds)
        return True
