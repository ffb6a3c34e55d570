# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_exchanges.py by scripts/unasync.py; change it there.
"""Calls whose server side may be missing yet, against exchanges recorded from the contract."""

import pytest

from opensandbox import SandboxManagerSync
from opensandbox.config import ConnectionConfigSync
from sdks.python.tests._sync import calls
from tests.harness.exchanges import API_KEY, EXCHANGES, replaying

NAMES = sorted(file.stem for file in EXCHANGES.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_the_client_says_and_hears_what_was_recorded(name: str) -> None:
    with replaying(name) as replay:
        call = getattr(calls, name)
        call(ConnectionConfigSync(domain=replay.domain, api_key=API_KEY))


def test_a_request_that_is_not_the_recorded_one_is_noticed() -> None:
    with replaying("refusals") as replay:
        config = ConnectionConfigSync(domain=replay.domain, api_key="wrong")
        with SandboxManagerSync.create(config) as manager:
            with calls.refused(409):
                manager.create_snapshot("another", "x")
        faults, replay.faults, replay.expected = replay.faults, [], []
    assert [fault.split(": ")[1] for fault in faults] == ["path", "OPEN-SANDBOX-API-KEY"]
