# SPDX-License-Identifier: Apache-2.0
"""Where the root file system of a sandbox comes from, and for which platform."""

from typing import Literal

from pydantic import Field, field_validator

from opensandbox.models.wire import NonBlank, WireModel


class SandboxImageAuth(WireModel):
    """A login for a private registry."""

    username: NonBlank
    password: NonBlank = Field(repr=False)


class SandboxImageSpec(WireModel):
    """An image and, for a private registry, its login: ``SandboxImageSpec("python:3.12")``."""

    image: NonBlank = Field(validation_alias="uri", serialization_alias="uri")
    auth: SandboxImageAuth | None = None

    def __init__(self, image: str | None = None, /, **fields: object) -> None:
        """Take the image by position or by name."""
        if image is not None:
            fields["image"] = image
        super().__init__(**fields)


class PlatformSpec(WireModel):
    """The operating system and processor a sandbox must have."""

    os: Literal["linux", "windows"]
    arch: Literal["amd64", "arm64"]

    @field_validator("os", "arch", mode="before")
    @classmethod
    def _ignore_case(cls, value: object) -> object:
        return value.strip().lower() if isinstance(value, str) else value
