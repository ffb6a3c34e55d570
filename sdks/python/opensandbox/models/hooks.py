# SPDX-License-Identifier: Apache-2.0
"""Commands a sandbox runs by itself: before it starts, and again and again."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from opensandbox.models.wire import NonBlank, StrictWireModel

HookCommand = Annotated[list[NonBlank], Field(min_length=1)]


class LifecycleHook(StrictWireModel):
    """A command that must succeed before the entrypoint starts."""

    command: HookCommand
    timeout_seconds: int | None = Field(default=None, ge=1, le=10800)


class PeriodicLifecycleHook(StrictWireModel):
    """A command that runs on a schedule while the sandbox lives."""

    name: NonBlank
    schedule: NonBlank
    command: HookCommand
    timeout_seconds: int | None = Field(default=None, ge=1, le=300)


class SandboxLifecycle(StrictWireModel):
    """The hooks of one sandbox."""

    pre_start: LifecycleHook | None = None
    periodic: list[PeriodicLifecycleHook] | None = None

    @model_validator(mode="after")
    def _require_unique_names(self) -> Self:
        names = [hook.name for hook in self.periodic or []]
        if len(names) != len(set(names)):
            raise ValueError("periodic hooks must have unique names")
        return self
