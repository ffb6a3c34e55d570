# SPDX-License-Identifier: Apache-2.0
"""Calls whose server side may be missing yet, against exchanges recorded from the contract."""

import pytest

from opensandbox import SandboxManager
from opensandbox.config import ConnectionConfig
from sdks.python.tests._async import calls
from tests.harness.exchanges import API_KEY, EXCHANGES, replaying

pytestmark = pytest.mark.anyio

NAMES = sorted(file.stem for file in EXCHANGES.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
async def test_the_client_says_and_hears_what_was_recorded(name: str) -> None:
    with replaying(name) as replay:
        call = getattr(calls, name)
        await call(ConnectionConfig(domain=replay.domain, api_key=API_KEY))


async def test_a_request_that_is_not_the_recorded_one_is_noticed() -> None:
    with replaying("refusals") as replay:
        config = ConnectionConfig(domain=replay.domain, api_key="wrong")
        async with await SandboxManager.create(config) as manager:
            with calls.refused(409):
                await manager.create_snapshot("another", "x")
        faults, replay.faults, replay.expected = replay.faults, [], []
    assert [fault.split(": ")[1] for fault in faults] == ["path", "OPEN-SANDBOX-API-KEY"]
