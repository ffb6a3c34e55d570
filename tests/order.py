# SPDX-License-Identifier: Apache-2.0
"""In which order tests run, and which of them run on one worker.

With several workers (`-n`) each gets whole files, because the tests of a file share a server or a
daemon. What takes longest begins first, or one worker would be left with it at the end.
"""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

HEAVIEST = (
    "tests/code/test_languages.py",
    "tests/docs/test_pages.py",
    "tests/repository/test_scripts.py",
    "tests/contract/test_execd_contract.py",
    "tests/code/test_first_context.py",
    "tests/code/test_python.py",
    "tests/mcp/test_http.py",
    "cli/tests/test_errors.py",
    "tests/e2e/test_restart.py",
    "tests/code/test_bad_cells.py",
    "server/tests/oci/test_runtime.py",
    "tests/e2e/test_published_client.py",
    "tests/code/test_bad_python.py",
    "tests/execd/test_output.py",
)
"""Files that take longest; what is printed at the end of each run says which they are."""

TOGETHER = "tests/conformance/opensandbox_conformance"
"""The folder whose files share one server for each runtime."""


def unit_of(nodeid: str) -> str:
    """Return what a test belongs to: the tests of one unit run on one worker."""
    path, _, name = nodeid.partition("::")
    if str(PurePosixPath(path).parent) != TOGETHER:
        return path
    runtime = name.partition("[")[2].partition("-")[0].rstrip("]")
    return f"{TOGETHER} on {runtime}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the heaviest first; otherwise tests stay as they are."""
    places = {file: place for place, file in enumerate(HEAVIEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


class WholeUnits(LoadScopeScheduling):  # type: ignore[misc]  # without types
    """Gives each worker whole units, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeUnits:
    """Choose who runs what."""
    config.option.loadscopereorder = False  # how many tests a file has says little
    return WholeUnits(config, log)
