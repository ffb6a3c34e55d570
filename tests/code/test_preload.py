# SPDX-License-Identifier: Apache-2.0
"""Libraries that the parent of all Python contexts imports once."""

from collections.abc import Iterator

import pytest

from tests.code.cells import made, results
from tests.code.interpreters import surroundings
from tests.harness.execd import OWN, Daemon, run_daemon

MODULES = "numpy.random, matplotlib.pyplot,no_such_module"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Run a daemon that preloads libraries, one of which does not exist."""
    environment = {**surroundings(), "OPENSANDBOX_PYTHON_PRELOAD": MODULES}
    with run_daemon(OWN, environment=environment) as running:
        yield running


def test_a_preloaded_library_is_there_at_once(daemon: Daemon) -> None:
    context = made(daemon.client, "python")
    assert context.value("import sys; 'matplotlib.pyplot' in sys.modules") == "True"


def test_each_context_draws_its_own_numbers_from_a_preloaded_library(daemon: Daemon) -> None:
    cell = "import numpy; print(numpy.random.rand())"
    drawn = {made(daemon.client, "python").out(cell) for _ in range(3)}
    assert len(drawn) == 3


def test_a_figure_of_a_preloaded_library_is_shown(daemon: Daemon) -> None:
    cell = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    shown = results(made(daemon.client, "python").run(cell))
    assert any("image/png" in one for one in shown)
