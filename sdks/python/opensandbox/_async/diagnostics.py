# SPDX-License-Identifier: Apache-2.0
"""Logs and events of sandboxes."""

from opensandbox.models.diagnostics import DiagnosticContent

from .manager import SandboxManager


class Diagnostics:
    """What helps to understand a sandbox that misbehaves."""

    def __init__(self, manager: SandboxManager) -> None:
        """Ask through this manager."""
        self._manager = manager

    async def get_logs(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        """Return the logs of a scope: ``container`` or ``all``."""
        return await self._manager.get_diagnostic_logs(sandbox_id, scope)

    async def get_events(self, sandbox_id: str, scope: str) -> DiagnosticContent:
        """Return the events of a scope: ``runtime`` or ``all``."""
        return await self._manager.get_diagnostic_events(sandbox_id, scope)
