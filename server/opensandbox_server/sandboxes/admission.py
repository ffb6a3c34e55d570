# SPDX-License-Identifier: Apache-2.0
"""What may be created: turns a request into what is wanted, or refuses it. Nothing here does I/O.

Its model checked the shape of a request (422); what depends on this server is here (400, 501).
"""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from opensandbox.models import CreateSandboxRequest
from opensandbox_server.errors import (
    InvalidEntrypoint,
    InvalidParameter,
    RequestRefused,
    SnapshotsNotBuilt,
    TemplatesNotBuilt,
    UnsupportedPool,
    UnsupportedVolume,
)
from opensandbox_server.runtimes.base import Feature, SandboxSpec
from opensandbox_server.runtimes.quantities import parse_limits
from opensandbox_server.sandboxes.metadata import check_metadata
from opensandbox_server.store.stored import StoredSandbox

RENEW_EXTENSION = "access.renew.extend.seconds"
ISOLATION_EXTENSION = "bootstrap.execd.isolation"
KEPT_EXTENSIONS = "opensandbox.extensions."
EGRESS_ENV = "OPENSANDBOX_EGRESS_"
EGRESS_TAILS = frozenset(
    (
        "CREDENTIAL_VAULT_REQUIRE_SCOPED_MATCH",
        "CREDENTIAL_VAULT_REQUIRE_TLS",
        "CREDENTIAL_VAULT_TRUSTED_PROXY_CIDRS",
        "DENY_WEBHOOK",
        "DNS_UPSTREAM_TIMEOUT",
        "LOG_LEVEL",
        "METRICS_EXTRA_ATTRS",
        "MITMPROXY_EXTRA_PORTS",
        "MITMPROXY_SSL_INSECURE",
        "MITMPROXY_TRANSPARENT",
        "POLICY_FILE",
    )
)
TOKEN_BYTES = 24
NOT_CARRIED = frozenset({Feature.SNAPSHOT, Feature.VOLUMES, Feature.EGRESS})
"""What a spec has no place for yet: it is refused whatever a runtime can do, and never lost."""
_HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)


class Need(NamedTuple):
    """What a create may ask for that not every runtime can do."""

    field: str
    is_there: bool
    feature: Feature
    refusal: type[RequestRefused] = InvalidParameter


def admit(
    request: CreateSandboxRequest,
    owner: str,
    features_of: Callable[[str | None], Collection[Feature]],
    max_timeout: int | None,
    now: datetime,
) -> StoredSandbox:
    """Return the sandbox the request makes. Raises RequestRefused that names the field.

    What the tier asked for has not among its features is refused here, and nowhere else.
    """
    _refuse_what_is_not_built(request)
    metadata, extensions = request.metadata or {}, request.extensions or {}
    isolation = extensions.get("runtime") or None
    features = frozenset(features_of(isolation))
    _refuse_what_is_missing(_needs_of_request(request), features - NOT_CARRIED)
    _refuse_what_no_runtime_does(request)
    assert request.image is not None  # the model asked for exactly one source
    check_metadata(metadata)
    _check_extensions(extensions)
    spec = SandboxSpec(
        id=str(uuid.uuid4()),
        image=request.image.image,
        entrypoint=_check_entrypoint(request.entrypoint or []),
        env=_environment(request.env or {}),
        resources=parse_limits(request.resource_limits or {}),
        platform=(request.platform.os, request.platform.arch) if request.platform else None,
        isolation=isolation,
        has_network=extensions.get("network") != "none",
        is_readonly=extensions.get("readonly") == "true",
        hostname=extensions.get("hostname") or None,
    )
    _refuse_what_is_missing(_needs_of_spec(spec), features)
    return StoredSandbox(
        spec,
        created_at=now,
        owner=owner,
        expires_at=_expiry(request.timeout, max_timeout, now),
        metadata=metadata,
        extensions=extensions,
        execd_token=secrets.token_urlsafe(TOKEN_BYTES),
        secure_token=secrets.token_urlsafe(TOKEN_BYTES) if request.secure_access else "",
    )


def kept_extensions(extensions: Mapping[str, str]) -> dict[str, str]:
    """Return those that responses show."""
    return {key: value for key, value in extensions.items() if key.startswith(KEPT_EXTENSIONS)}


def renew_seconds(extensions: Mapping[str, str]) -> int | None:
    """Return by how much traffic lengthens the life of a sandbox, when it asked for that."""
    text = extensions.get(RENEW_EXTENSION)
    return int(text) if text else None


def _refuse_what_is_not_built(request: CreateSandboxRequest) -> None:
    if request.template_id is not None:
        raise TemplatesNotBuilt("templateId: this server has no templates yet.")
    if request.pool_ref is not None:
        raise UnsupportedPool("extensions.poolRef: this server has no warm pools yet.")


def _refuse_what_no_runtime_does(request: CreateSandboxRequest) -> None:
    if request.lifecycle and (request.lifecycle.pre_start or request.lifecycle.periodic):
        raise InvalidParameter("lifecycle: this server runs no hooks yet.")
    if request.platform and request.platform.os != "linux":
        raise InvalidParameter("platform.os: only linux sandboxes can be made here.")


def _needs_of_request(request: CreateSandboxRequest) -> Iterable[Need]:
    return (
        Need("snapshotId", request.snapshot_id is not None, Feature.SNAPSHOT, SnapshotsNotBuilt),
        Need("volumes", bool(request.volumes), Feature.VOLUMES, UnsupportedVolume),
        Need("networkPolicy", request.network_policy is not None, Feature.EGRESS),
    )


def _needs_of_spec(spec: SandboxSpec) -> Iterable[Need]:
    return (
        Need("resourceLimits.disk", spec.resources.disk_bytes is not None, Feature.DISK),
        Need("resourceLimits.gpu", spec.resources.gpus is not None, Feature.GPU),
        Need("extensions[network]", not spec.has_network, Feature.NO_NETWORK),
        Need("extensions[readonly]", spec.is_readonly, Feature.READONLY),
        Need("extensions[hostname]", spec.hostname is not None, Feature.HOSTNAME),
    )


def _refuse_what_is_missing(needs: Iterable[Need], features: Collection[Feature]) -> None:
    """Refuse the first thing asked for that is not among the features."""
    for need in needs:
        if need.is_there and need.feature not in features:
            raise need.refusal(f"{need.field}: the runtime here cannot {need.feature.value}.")


def _check_entrypoint(words: list[str]) -> tuple[str, ...]:
    if not words or not words[0].strip():
        raise InvalidEntrypoint("entrypoint: the first word must name a program.")
    if any("\0" in word for word in words):
        raise InvalidEntrypoint("entrypoint: a word has a NUL character in it.")
    return tuple(words)


def _expiry(timeout: int | None, max_timeout: int | None, now: datetime) -> datetime | None:
    if timeout is None:
        if max_timeout is not None:
            raise InvalidParameter(
                f"timeout: every sandbox ends here, after {max_timeout} s at most; give a timeout."
            )
        return None
    if max_timeout is not None and timeout > max_timeout:
        raise InvalidParameter(
            f"timeout: {timeout} s is more than the {max_timeout} s allowed here."
        )
    try:
        return now + timedelta(seconds=timeout)
    except OverflowError as fault:
        raise InvalidParameter(f"timeout: {timeout} s is beyond the calendar.") from fault


def _environment(env: Mapping[str, str | None]) -> dict[str, str]:
    kept = {}
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in (value or ""):
            shown = name.partition("=")[0]  # what follows is a value: a client took the pair whole
            raise InvalidParameter(f"env: {shown!r} cannot be a variable, or its value has a NUL.")
        if name.startswith(EGRESS_ENV):
            if name.removeprefix(EGRESS_ENV) not in EGRESS_TAILS:
                raise InvalidParameter(f"env: {name} is not one that egress takes.")
            continue  # meant for egress, which only a network policy brings
        if value is not None:
            kept[name] = value
    return kept


def _check_extensions(extensions: Mapping[str, str]) -> None:
    renew = extensions.get(RENEW_EXTENSION)
    if renew is not None and not (
        renew.isascii() and renew.isdigit() and 300 <= int(renew) <= 86400
    ):
        raise InvalidParameter(f"extensions[{RENEW_EXTENSION}]: must be 300 to 86400.")
    if extensions.get(ISOLATION_EXTENSION, "enable") != "enable":
        raise InvalidParameter(f"extensions[{ISOLATION_EXTENSION}]: must be enable.")
    if extensions.get("network", "default") not in {"default", "none"}:
        raise InvalidParameter("extensions[network]: must be default or none.")
    if extensions.get("readonly", "false") not in {"true", "false"}:
        raise InvalidParameter("extensions[readonly]: must be true or false.")
    if extensions.get("hostname") and not _HOSTNAME.fullmatch(extensions["hostname"]):
        raise InvalidParameter(
            "extensions[hostname]: must be at most 63 letters, digits and '-', with a letter or "
            "digit at both ends."
        )
