# SPDX-License-Identifier: Apache-2.0
"""States of a sandbox, and how what a runtime sees becomes one.

create → Pending → Running ⇄ (Pausing → Paused → Resuming)
Running, Paused → Stopping → gone;  an entrypoint that ends → Terminated or Failed
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from opensandbox.models import SandboxState, SandboxStatus
from opensandbox_server.runtimes.base import Instance, InstanceState


@dataclass(frozen=True, slots=True)
class Status:
    """A state, why, and since when."""

    state: SandboxState
    reason: str = ""
    message: str = ""
    since: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_wire(self) -> SandboxStatus:
        """Return it as the API shows it."""
        return SandboxStatus(
            state=self.state,
            reason=self.reason or None,
            message=self.message or None,
            last_transition_at=self.since,
        )


def status_of(instance: Instance) -> Status:
    """Say in the contract's words what a runtime sees."""
    match instance.state:
        case InstanceState.RUNNING:
            return Status(SandboxState.RUNNING, "CONTAINER_RUNNING", instance.reason)
        case InstanceState.PAUSED:
            return Status(SandboxState.PAUSED, "CONTAINER_PAUSED", instance.reason)
        case InstanceState.EXITED:
            return _exited(instance)


def lost() -> Status:
    """Return the status of a sandbox that the runtime no longer has."""
    message = "The sandbox is no longer there; the machine may have been restarted."
    return Status(SandboxState.FAILED, "CONTAINER_LOST", message)


def _exited(instance: Instance) -> Status:
    how = "ended" if instance.exit_code is None else f"exited with status {instance.exit_code}"
    message = instance.reason or f"The entrypoint {how}."
    if instance.exit_code == 0:
        return Status(SandboxState.TERMINATED, "CONTAINER_EXITED", message)
    return Status(SandboxState.FAILED, "CONTAINER_EXITED_ERROR", message)
