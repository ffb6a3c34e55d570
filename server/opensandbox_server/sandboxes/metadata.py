# SPDX-License-Identifier: Apache-2.0
"""User tags: their grammar, how a filter is written, and how a patch changes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_plus

from opensandbox_server.errors import InvalidMetadata, InvalidMetadataFilter

RESERVED_PREFIX = "opensandbox.io/"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_MAX_PREFIX = 253


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Refuse keys and values that are not labels. Raises InvalidMetadata."""
    for key, value in metadata.items():
        check_key(key)
        if value and not _NAME.fullmatch(value):
            raise InvalidMetadata(
                f"The value of metadata key {key!r} must be empty or at most 63 letters, digits, "
                "'-', '_' and '.', with a letter or digit at both ends."
            )


def check_key(key: str) -> None:
    """Refuse a key that is not a label or is reserved. Raises InvalidMetadata."""
    if key.startswith(RESERVED_PREFIX):
        raise InvalidMetadata(f"Metadata key {key!r} is reserved: {RESERVED_PREFIX} is ours.")
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _is_dns_name(prefix)):
        raise InvalidMetadata(
            f"Metadata key {key!r} must be a name of at most 63 letters, digits, '-', '_' and '.', "
            "with an optional DNS prefix and '/' before it."
        )


def patch_metadata(old: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    """Merge: a value sets, None removes. Raises InvalidMetadata."""
    for key in patch:
        check_key(key)
    merged = {key: value for key, value in {**old, **patch}.items() if value is not None}
    check_metadata({key: value for key, value in merged.items() if key in patch})
    return merged


def parse_filter(text: str) -> dict[str, str]:
    """Read `k=v&k2=v2`, percent-encoded once more by some clients. Raises InvalidMetadataFilter."""
    pairs: dict[str, str] = {}
    for segment in text.split("&"):
        if not segment.strip():
            continue
        key, equals, value = segment.partition("=")
        if not equals or not key:
            raise InvalidMetadataFilter(
                f"The metadata filter has {segment!r} where key=value belongs."
            )
        pairs[unquote_plus(key)] = unquote_plus(value)
    return pairs


def _is_dns_name(prefix: str) -> bool:
    return len(prefix) <= _MAX_PREFIX and all(map(_DNS_LABEL.fullmatch, prefix.split(".")))
