# SPDX-License-Identifier: Apache-2.0
"""Fixtures that every test directory shares: the real daemon, in three surroundings."""

from collections.abc import Iterator

import pytest

from tests.harness.execd import KINDS, Daemon, DaemonUnavailableError, Kind, run_daemon


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Where the daemon runs: root, user, busybox."""
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def daemon(kind: Kind) -> Iterator[Daemon]:
    """Run a fresh daemon for this test alone, once for each kind."""
    yield from _daemon_or_skip(kind)


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    """Run one daemon for all tests of a module that leave it as it was, wherever it runs."""
    yield from _daemon_or_skip("user")


@pytest.fixture
def throwaway_daemon() -> Iterator[Daemon]:
    """Run a daemon that may be told to destroy everything it sees."""
    yield from _daemon_or_skip("busybox")


def _daemon_or_skip(kind: Kind) -> Iterator[Daemon]:
    try:
        running = run_daemon(kind)
        with running as daemon:
            yield daemon
    except DaemonUnavailableError as reason:
        pytest.skip(str(reason))
