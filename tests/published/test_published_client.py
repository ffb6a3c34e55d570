# SPDX-License-Identifier: Apache-2.0
"""The published client, unmodified and in its own virtual environment, against our daemon."""

import pytest

from tests.harness.execd import KINDS, DaemonUnavailableError, Kind, run_daemon
from tests.harness.lifecycle import run_standin
from tests.published.environment import (
    SCENARIOS,
    published_python,
    run_scenarios,
    scenario_names,
)


@pytest.fixture(scope="module", params=KINDS)
def outcomes(request: pytest.FixtureRequest) -> dict[str, str | None]:
    """Run all scenarios against one daemon and return what went wrong in each."""
    kind: Kind = request.param
    try:
        with (
            run_daemon(kind) as daemon,
            run_standin(api_key="", execd={"endpoint": daemon.address}) as standin,
        ):
            return run_scenarios(published_python(), SCENARIOS, standin.domain, daemon.workdir)
    except DaemonUnavailableError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", scenario_names(SCENARIOS))
def test_the_published_client_can(outcomes: dict[str, str | None], name: str) -> None:
    assert outcomes[name] is None, outcomes[name]
