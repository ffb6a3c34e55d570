# SPDX-License-Identifier: Apache-2.0
"""A runtime as others would bring it: it leaves the work to another one and says its own name."""

from collections.abc import AsyncIterator, Sequence

from opensandbox_server.runtimes.base import (
    Change,
    Finding,
    Inspection,
    Instance,
    LogPart,
    Runtime,
    RuntimeEvent,
    RuntimeHome,
    SandboxSpec,
    Secrets,
    SnapshotRef,
)
from opensandbox_server.runtimes.fake import FakeRuntime


class ElsewhereRuntime(Runtime):
    """Sandboxes on somebody else's machines."""

    name = "elsewhere"
    features = FakeRuntime.features

    def __init__(self, home: RuntimeHome) -> None:
        """Check the options; nothing is opened yet. Raises ValueError for a bad option."""
        if unknown := set(home.options) - {"region"}:
            raise ValueError(f"elsewhere.{min(unknown)}: unknown key; [elsewhere] has region")
        self._region = str(home.options.get("region", "here"))
        self._machines = FakeRuntime(home)

    async def doctor(self) -> Sequence[Finding]:
        """Say which region is used."""
        return [Finding("region", True, self._region)]

    async def prepare(self) -> None:
        """Connect."""
        await self._machines.prepare()

    async def close(self) -> None:
        """Disconnect; instances go on."""
        await self._machines.close()

    async def start(
        self, spec: SandboxSpec, secrets: Secrets, source: SnapshotRef | None = None
    ) -> Instance:
        """Start an instance."""
        return await self._machines.start(spec, secrets, source)

    async def stop(self, instance_id: str) -> None:
        """End an instance."""
        await self._machines.stop(instance_id)

    async def pause(self, instance_id: str) -> None:
        """Freeze an instance."""
        await self._machines.pause(instance_id)

    async def resume(self, instance_id: str) -> Instance:
        """Thaw an instance."""
        return await self._machines.resume(instance_id)

    async def update(self, instance_id: str, change: Change) -> Instance:
        """Give an instance other limits."""
        return await self._machines.update(instance_id, change)

    async def instances(self) -> Sequence[Instance]:
        """List the instances."""
        return await self._machines.instances()

    async def inspect(self, instance_id: str) -> Inspection:
        """Look at one instance."""
        return await self._machines.inspect(instance_id)

    def logs(
        self, instance_id: str, since: int = 0, *, follow: bool = False
    ) -> AsyncIterator[LogPart]:
        """Read what an entrypoint wrote."""
        return self._machines.logs(instance_id, since, follow=follow)

    def watch(self) -> AsyncIterator[RuntimeEvent]:
        """Tell of instances that end by themselves."""
        return self._machines.watch()
