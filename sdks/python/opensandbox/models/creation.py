# SPDX-License-Identifier: Apache-2.0
"""The request for a sandbox, and the rules that need no knowledge of the server."""

from typing import Self

from pydantic import Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from opensandbox.models.hooks import SandboxLifecycle
from opensandbox.models.images import PlatformSpec, SandboxImageSpec
from opensandbox.models.networks import CredentialProxyConfig, NetworkPolicy
from opensandbox.models.volumes import Volume
from opensandbox.models.wire import WireModel

MIN_TIMEOUT_SECONDS = 60
POOL_REF = "poolRef"
RESERVED_ENV = "OPENSANDBOX_LIFECYCLE"

_REFUSED_WITH_TEMPLATE = (
    "image",
    "snapshot_id",
    "entrypoint",
    "env",
    "resource_limits",
    "resource_requests",
    "volumes",
    "platform",
    "credential_proxy",
    "secure_access",
    "lifecycle",
)
_REFUSED_WITH_POOL = ("snapshot_id", "lifecycle")


class CreateSandboxRequest(WireModel):
    """What a new sandbox shall be. Exactly one of image, snapshot, template and pool makes it."""

    image: SandboxImageSpec | None = None
    snapshot_id: str | None = None
    template_id: str | None = Field(default=None, min_length=1)
    platform: PlatformSpec | None = None
    timeout: int | None = Field(default=None, ge=MIN_TIMEOUT_SECONDS)
    """Seconds to live; None lives until it is killed."""
    resource_limits: dict[str, str] | None = None
    resource_requests: dict[str, str] | None = None
    env: dict[str, str] | None = None
    """A null on the wire is dropped."""
    metadata: dict[str, str] | None = None
    lifecycle: SandboxLifecycle | None = None
    entrypoint: list[str] | None = Field(default=None, min_length=1)
    network_policy: NetworkPolicy | None = None
    credential_proxy: CredentialProxyConfig | None = None
    secure_access: bool = False
    volumes: list[Volume] | None = None
    extensions: dict[str, str] | None = None

    @property
    def pool_ref(self) -> str | None:
        """The warm pool to take from, when one is named."""
        return (self.extensions or {}).get(POOL_REF, "").strip() or None

    @field_validator("snapshot_id")
    @classmethod
    def _treat_blank_as_absent(cls, value: str | None) -> str | None:
        return value if value and value.strip() else None

    @field_validator("env", mode="before")
    @classmethod
    def _drop_nulls(cls, env: object) -> object:
        if not isinstance(env, dict):
            return env
        return {name: value for name, value in env.items() if value is not None}

    @field_validator("env")
    @classmethod
    def _refuse_reserved(cls, env: dict[str, str] | None) -> dict[str, str] | None:
        if RESERVED_ENV in (env or {}):
            raise ValueError(f"{RESERVED_ENV} is reserved")
        return env

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.template_id is not None:
            self._check_template()
        elif self.pool_ref is not None:
            self._refuse(_REFUSED_WITH_POOL, "extensions.poolRef")
        else:
            self._check_image_or_snapshot()
        if self.credential_proxy and self.credential_proxy.enabled and not self.network_policy:
            raise ValueError("credentialProxy needs networkPolicy")
        return self

    def _check_template(self) -> None:
        self._refuse(_REFUSED_WITH_TEMPLATE, "templateId")
        if self.pool_ref is not None:
            raise ValueError("extensions.poolRef cannot be used with templateId")
        if self.timeout is None:
            raise ValueError("timeout is required with templateId")

    def _check_image_or_snapshot(self) -> None:
        if (self.image is None) == (self.snapshot_id is None):
            raise ValueError("exactly one of image and snapshotId is required")
        if self.image is not None and not self.entrypoint:
            raise ValueError("entrypoint is required with image")
        if self.resource_limits is None:
            raise ValueError("resourceLimits is required")

    def _refuse(self, fields: tuple[str, ...], beside: str) -> None:
        # An empty map or list says nothing; some clients always send one.
        refused = [to_camel(field) for field in fields if getattr(self, field)]
        if refused:
            raise ValueError(f"{', '.join(refused)} cannot be used with {beside}")
