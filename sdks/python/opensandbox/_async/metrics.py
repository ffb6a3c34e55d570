# SPDX-License-Identifier: Apache-2.0
"""What a sandbox uses."""

from collections.abc import AsyncIterator

from pydantic import TypeAdapter

from opensandbox.exceptions import SandboxException
from opensandbox.models.sandboxes import SandboxMetrics

from .transport import Remote, json_lines

_METRICS = TypeAdapter(SandboxMetrics)


class Metrics:
    """Metrics of one sandbox."""

    def __init__(self, execd: Remote) -> None:
        """Speak to this execd."""
        self._execd = execd

    async def get_metrics(self, sandbox_id: str) -> SandboxMetrics:  # noqa: ARG002
        """Return what the sandbox uses now. The id is the sandbox's own; there is no other."""
        return await self._execd.ask(_METRICS, "GET", "/metrics")

    async def watch(self) -> AsyncIterator[SandboxMetrics]:
        """Yield what the sandbox uses, now and then once a second."""
        async for sample in json_lines(self._execd, "/metrics/watch"):
            if "error" in sample:
                raise SandboxException(f"the sandbox cannot be measured: {sample['error']}")
            yield _METRICS.validate_python(sample)
