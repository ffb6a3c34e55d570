# SPDX-License-Identifier: Apache-2.0
"""One program, its source unchanged, with the published client and with ours.

The published one is unmodified and in its own virtual environment.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from opensandbox import SandboxManagerSync
from opensandbox.models import SandboxFilter
from tests.harness.server import API_KEY, Server
from tests.published.environment import (
    SCENARIOS,
    published_python,
    run_scenarios,
    scenario_names,
)

LIFECYCLE = Path(__file__).with_name("published_lifecycle.py")

Outcomes = dict[str, str | None]


@pytest.fixture(scope="module", params=["published", "ours"])
def python(request: pytest.FixtureRequest) -> Path:
    """An interpreter with one of the two clients."""
    return published_python() if request.param == "published" else Path(sys.executable)


@pytest.fixture(scope="module")
def lifecycle(server: Server, python: Path) -> Outcomes:
    """What went wrong in each thing that is done with sandboxes."""
    return run_scenarios(python, LIFECYCLE, server.domain, API_KEY)


@pytest.fixture(scope="module")
def inside(server: Server, python: Path) -> Iterator[Outcomes]:
    """What went wrong in each thing that is done in a sandbox."""
    # The fake runtime's sandboxes write on this machine; any other makes the path for itself.
    with tempfile.TemporaryDirectory(prefix="osb-e2e-") as work:
        Path(work).chmod(0o755)
        yield run_scenarios(python, SCENARIOS, server.domain, work, "host", API_KEY)
        with SandboxManagerSync.create(server.sync_config) as manager:
            for info in manager.list_sandbox_infos(SandboxFilter(page_size=200)).sandbox_infos:
                manager.kill_sandbox(info.id)


@pytest.mark.parametrize("name", scenario_names(LIFECYCLE))
def test_sandboxes(lifecycle: Outcomes, name: str) -> None:
    assert lifecycle[name] is None, lifecycle[name]


@pytest.mark.parametrize("name", scenario_names(SCENARIOS))
def test_inside_a_sandbox(inside: Outcomes, name: str) -> None:
    assert inside[name] is None, inside[name]
