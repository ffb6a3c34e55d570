# SPDX-License-Identifier: Apache-2.0
"""Storage mounted into a sandbox.

Only the shape is checked here. Names, paths and prefixes are the server's to judge, with a code of
their own for each fault.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from opensandbox.models.wire import WireModel


class Host(WireModel):
    """A directory of the host; the operator must have allowed its prefix."""

    path: str


class PVC(WireModel):
    """A named volume: a claim on Kubernetes, a volume of the server elsewhere."""

    claim_name: str
    create_if_not_exists: bool = True
    delete_on_sandbox_termination: bool = False
    storage_class: str | None = None
    storage: str | None = None
    access_modes: list[str] | None = None


class OSSFS(WireModel):
    """A bucket of an object store."""

    bucket: str
    endpoint: str
    version: Literal["1.0", "2.0"] = "2.0"
    options: list[str] | None = None
    access_key_id: str | None = None
    access_key_secret: str | None = Field(default=None, repr=False)


class Volume(WireModel):
    """One mount: where it comes from (exactly one backend) and where it appears."""

    name: str
    host: Host | None = None
    pvc: PVC | None = None
    ossfs: OSSFS | None = None
    mount_path: str
    read_only: bool = False
    sub_path: str | None = None

    @model_validator(mode="after")
    def _require_one_backend(self) -> Self:
        backends = [name for name in ("host", "pvc", "ossfs") if getattr(self, name) is not None]
        if len(backends) != 1:
            found = ", ".join(backends) or "none"
            raise ValueError(f"exactly one of host, pvc and ossfs is needed; found {found}")
        return self
