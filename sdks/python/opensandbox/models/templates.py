# SPDX-License-Identifier: Apache-2.0
"""Templates: images made ready for micro virtual machines."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from opensandbox.models.pages import PaginationInfo
from opensandbox.models.wire import NonBlank, StrictWireModel, WireModel

TemplateFormat = Literal["native", "overlaybd"]


class TemplatePhase(StrEnum):
    """How far a template is. Servers may answer with others."""

    PENDING = "Pending"
    BUILDING = "Building"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @classmethod
    def values(cls) -> set[str]:
        """Return the phases known here."""
        return {phase.value for phase in cls}


class TemplateReadiness(WireModel):
    """When a template counts as warm."""

    probe: str | None = None
    warmup_seconds: int | None = Field(default=None, ge=0)


class TemplateStatus(WireModel):
    """What a template is seen to be."""

    phase: str
    manifest_ref: str | None = None
    message: str | None = None


class CreateTemplateRequest(StrictWireModel):
    """Request for a template: an image, and where the result is published."""

    image: NonBlank
    publish: NonBlank
    resource_limits: dict[str, str] | None = None
    entrypoint: list[str] | None = None
    env: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    readiness: TemplateReadiness | None = None
    format: TemplateFormat | None = None


class TemplateInfo(WireModel):
    """A template."""

    template_id: str
    image: str
    publish: str
    format: TemplateFormat
    status: TemplateStatus
    created_at: datetime
    updated_at: datetime
    resource_limits: dict[str, str] | None = None
    entrypoint: list[str] | None = None
    env: dict[str, str] | None = None
    metadata: dict[str, str] | None = None
    readiness: TemplateReadiness | None = None


class TemplateFilter(WireModel):
    """Which templates to list."""

    metadata: dict[str, str] | None = None
    page_size: int | None = Field(default=None, ge=1, le=200)
    page: int | None = Field(default=None, ge=1)


class PagedTemplateInfos(WireModel):
    """One page of templates."""

    template_infos: list[TemplateInfo] = Field(
        validation_alias="items", serialization_alias="items"
    )
    pagination: PaginationInfo
