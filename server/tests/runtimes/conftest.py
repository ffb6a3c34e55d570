# SPDX-License-Identifier: Apache-2.0
"""Every runtime that comes with the server, once for all tests of a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from opensandbox_server.runtimes.base import Runtime
from opensandbox_server.runtimes.fake import FakeRuntime
from opensandbox_server.runtimes.oci.runtime import OCIRuntime
from server.tests.runtimes.runtimes import Kind, opened, stop_all
from tests.harness.runtime import missing, own_network


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run everything of a file on one event loop, for its runtime lives there."""
    return "asyncio"


@pytest.fixture(scope="module")
def network() -> Iterator[int]:
    """A network namespace for the embedded runtime."""
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    with own_network() as netns:
        yield netns


@pytest.fixture(scope="module", params=[FakeRuntime, OCIRuntime])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each of the runtimes that come with the server."""
    if request.param is OCIRuntime:
        request.getfixturevalue("network")
    chosen: Kind = request.param
    return chosen


@pytest.fixture(scope="module")
async def shared(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Runtime]:
    """One of them, ready."""
    async with opened(kind, tmp_path_factory.mktemp("home")) as ready:
        yield ready


@pytest.fixture
async def runtime(shared: Runtime) -> AsyncIterator[Runtime]:
    """The same, with no instance of another test."""
    yield shared
    await stop_all(shared)
