# SPDX-License-Identifier: Apache-2.0
"""Tags, quantities and ports: what is accepted, what is refused."""

from __future__ import annotations

import pytest

from opensandbox_server.errors import InvalidMetadata, InvalidMetadataFilter, InvalidParameter
from opensandbox_server.runtimes.base import Resources
from opensandbox_server.runtimes.quantities import parse_limits
from opensandbox_server.sandboxes.metadata import check_metadata, parse_filter, patch_metadata


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": ""},
        {"a.b_c-d": "V.1_2-3"},
        {"example.com/name": "v"},
        {"a" * 63: "b" * 63},
        {"1": "2"},
    ],
)
def test_labels_are_accepted(metadata: dict[str, str]) -> None:
    check_metadata(metadata)


@pytest.mark.parametrize(
    "metadata",
    [
        {"": "v"},
        {"-a": "v"},
        {"a-": "v"},
        {"a b": "v"},
        {"a" * 64: "v"},
        {"a": "v" * 64},
        {"a": "-v"},
        {"a": "ü"},
        {"a": "v\n"},
        {"/a": "v"},
        {"UPPER.com/a": "v"},
        {("x" * 250) + ".com/a": "v"},
        {"opensandbox.io/id": "v"},
    ],
)
def test_what_is_no_label_is_refused(metadata: dict[str, str]) -> None:
    with pytest.raises(InvalidMetadata):
        check_metadata(metadata)


def test_a_patch_sets_and_removes() -> None:
    assert patch_metadata({"a": "1", "b": "2"}, {"a": None, "c": "3", "gone": None}) == {
        "b": "2",
        "c": "3",
    }


def test_a_patch_cannot_touch_reserved_keys_even_to_remove_them() -> None:
    with pytest.raises(InvalidMetadata):
        patch_metadata({}, {"opensandbox.io/id": None})


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a=b&c=d", {"a": "b", "c": "d"}),
        ("a%2Fb=c%26d", {"a/b": "c&d"}),
        ("a=", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
    ],
)
def test_a_filter_is_a_query_string(text: str, pairs: dict[str, str]) -> None:
    assert parse_filter(text) == pairs


@pytest.mark.parametrize("text", ["a", "=b", "a=b&c"])
def test_a_malformed_filter_is_refused(text: str) -> None:
    with pytest.raises(InvalidMetadataFilter):
        parse_filter(text)


@pytest.mark.parametrize(
    ("limits", "resources"),
    [
        ({}, Resources()),
        ({"cpu": "500m", "memory": "2Gi"}, Resources(cpus=0.5, memory_bytes=2 * 1024**3)),
        ({"cpu": "2", "memory": "512mb"}, Resources(cpus=2, memory_bytes=512 * 1024**2)),
        ({"memory": "1.5g"}, Resources(memory_bytes=1536 * 1024**2)),
        ({"memory": "1073741824"}, Resources(memory_bytes=1024**3)),
        ({"disk": "10Gi", "pids": "64"}, Resources(disk_bytes=10 * 1024**3, pids=64)),
        ({"gpu": "0"}, Resources()),
        ({"gpu": "all"}, Resources(gpus="all")),
    ],
)
def test_limits_are_read(limits: dict[str, str], resources: Resources) -> None:
    assert parse_limits(limits) == resources


@pytest.mark.parametrize(
    "limits",
    [
        {"cpu": "0"},
        {"cpu": "-1"},
        {"cpu": "many"},
        {"cpu": "1e3"},
        {"cpu": ""},
        {"memory": "2Xi"},
        {"memory": "1"},
        {"memory": "9" * 30},
        {"memory": "٢Gi"},
        {"pids": "0"},
        {"pids": "x"},
        {"gpu": "some"},
        {"colour": "red"},
    ],
)
def test_a_bad_limit_is_refused_by_name(limits: dict[str, str]) -> None:
    with pytest.raises(InvalidParameter, match=f"resourceLimits.{next(iter(limits))}"):
        parse_limits(limits)
