# SPDX-License-Identifier: Apache-2.0
"""What a server answers when it cannot do what it was asked, and about itself."""

from typing import Literal

from pydantic import Field

from opensandbox.models.wire import WireModel


class ErrorBody(WireModel):
    """The one error shape: a code for programs, a message for people."""

    code: str
    message: str


class Health(WireModel):
    """The server answers."""

    status: Literal["healthy"] = "healthy"


class Readiness(WireModel):
    """Everything of the server works."""

    status: Literal["ready"] = "ready"


class ServerVersion(WireModel):
    """The version of the server."""

    version: str


class ClientMetricsEvent(WireModel):
    """How long a create took, as a client saw it."""

    event_type: Literal["sandbox.create"]
    create_duration_ms: float = Field(ge=0)
    success: bool
    sandbox_id: str | None = None
    image: str | None = None
