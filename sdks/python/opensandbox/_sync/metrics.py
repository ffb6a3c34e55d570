# SPDX-License-Identifier: Apache-2.0
# Made from _async/metrics.py by scripts/unasync.py; change it there.
"""What a sandbox uses."""

from pydantic import TypeAdapter

from opensandbox.models.sandboxes import SandboxMetrics

from .transport import Remote

_METRICS = TypeAdapter(SandboxMetrics)


class Metrics:
    """Metrics of one sandbox."""

    def __init__(self, execd: Remote) -> None:
        """Speak to this execd."""
        self._execd = execd

    def get_metrics(self, sandbox_id: str) -> SandboxMetrics:  # noqa: ARG002
        """Return what the sandbox uses now. The id is the sandbox's own; there is no other."""
        return self._execd.ask(_METRICS, "GET", "/metrics")
