# SPDX-License-Identifier: Apache-2.0
"""What a runtime cannot do is refused by name; what it can is part of the spec."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from opensandbox.models import CreateSandboxRequest
from opensandbox_server.errors import InvalidParameter, RequestRefused
from opensandbox_server.runtimes.base import Feature, SandboxSpec
from opensandbox_server.sandboxes.admission import admit
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


def admitted(changes: dict[str, Any], features: set[Feature]) -> SandboxSpec:
    request = CreateSandboxRequest.model_validate(create_request(**changes))
    return admit(request, "", features, None, NOW).spec


@pytest.mark.parametrize("feature", Feature)
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
    "changes",
    [
        {"networkPolicy": {}},
        {"volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/"}}]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_no_spec_can_carry_is_refused_whatever_a_runtime_can_do(
    changes: dict[str, Any],
) -> None:
    with pytest.raises(RequestRefused):
        admitted(changes, set(Feature))
