# SPDX-License-Identifier: Apache-2.0
"""What a runtime cannot do is refused by name; what it can is part of the spec."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import pytest

from opensandbox.models import CreateSandboxRequest
from opensandbox_server.errors import (
    InvalidParameter,
    RequestRefused,
    SnapshotsNotBuilt,
    UnsupportedVolume,
)
from opensandbox_server.runtimes.base import Feature, SandboxSpec
from opensandbox_server.sandboxes.admission import NOT_CARRIED, admit
from server.tests.world import create_request

NOW = datetime.now(UTC)
NEEDS: dict[Feature, tuple[dict[str, Any], str, Any]] = {
    Feature.DISK: ({"resourceLimits": {"disk": "1Gi"}}, "resources.disk_bytes", 1 << 30),
    Feature.GPU: ({"resourceLimits": {"gpu": "2"}}, "resources.gpus", "2"),
    Feature.HOSTNAME: ({"extensions": {"hostname": "mine"}}, "hostname", "mine"),
    Feature.NO_NETWORK: ({"extensions": {"network": "none"}}, "has_network", False),
    Feature.READONLY: ({"extensions": {"readonly": "true"}}, "is_readonly", True),
}
"""What asks for a feature, and where the spec then has it."""


def admitted(changes: dict[str, Any], features: Collection[Feature]) -> SandboxSpec:
    request = CreateSandboxRequest.model_validate(create_request(**changes))
    return admit(request, "", lambda _: features, None, NOW).spec


def test_every_feature_is_asked_for_by_a_create_or_by_a_verb() -> None:
    assert {*NEEDS, *NOT_CARRIED, Feature.PAUSE, Feature.UPDATE} == set(Feature)


@pytest.mark.parametrize("feature", NEEDS)
def test_a_feature_is_refused_where_it_is_missing_and_else_reaches_the_spec(
    feature: Feature,
) -> None:
    changes, place, value = NEEDS[feature]
    with pytest.raises(InvalidParameter, match=feature.value):
        admitted(changes, set(Feature) - {feature})
    found: Any = admitted(changes, {feature})
    for name in place.split("."):
        found = getattr(found, name)
    assert found == value


@pytest.mark.parametrize(
    ("changes", "feature", "refusal"),
    [
        ({"networkPolicy": {}}, Feature.EGRESS, InvalidParameter),
        (
            {"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/"}}]},
            Feature.VOLUMES,
            UnsupportedVolume,
        ),
        ({"image": None, "snapshotId": "s"}, Feature.SNAPSHOT, SnapshotsNotBuilt),
        (
            {"image": None, "snapshotId": "s", "platform": {"os": "windows", "arch": "amd64"}},
            Feature.SNAPSHOT,
            SnapshotsNotBuilt,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Feature) else "",
)
def test_what_no_spec_can_carry_is_refused_whatever_a_runtime_can_do(
    changes: dict[str, Any], feature: Feature, refusal: type[RequestRefused]
) -> None:
    for features in (set[Feature](), set(Feature)):
        with pytest.raises(refusal, match=feature.value):
            admitted(changes, features)


def test_features_are_those_of_the_tier_that_is_asked_for() -> None:
    def features_of(isolation: str | None) -> set[Feature]:
        return {Feature.HOSTNAME} if isolation == "crun" else set()

    def create(tier: str) -> SandboxSpec:
        extensions = {"hostname": "mine", "runtime": tier}
        request = CreateSandboxRequest.model_validate(create_request(extensions=extensions))
        return admit(request, "", features_of, None, NOW).spec

    assert create("crun").hostname == "mine"
    for tier in ("gvisor", ""):
        with pytest.raises(InvalidParameter, match=Feature.HOSTNAME.value):
            create(tier)
