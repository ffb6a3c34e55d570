# SPDX-License-Identifier: Apache-2.0
"""A manager works on sandboxes by their ids."""

from datetime import timedelta
from urllib.parse import parse_qs

import pytest

from opensandbox import Sandbox, SandboxManager
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.sandboxes import SandboxFilter
from tests.harness.lifecycle import StandIn

pytestmark = pytest.mark.anyio


async def test_a_list_is_asked_for_as_the_server_reads_it(standin: StandIn) -> None:
    wanted = SandboxFilter(
        states=["Running", "Paused"], metadata={"a b": "c&d", "e": "f"}, page=2, page_size=50
    )
    async with await SandboxManager.create() as manager:
        page = await manager.list_sandbox_infos(wanted)
    assert page.sandbox_infos == []
    assert page.pagination.total_pages == 0
    query = standin.requests[0].query
    assert query["state"] == ["Running", "Paused"]
    assert parse_qs(query["metadata"][0]) == {"a b": ["c&d"], "e": ["f"]}
    assert (query["page"], query["pageSize"]) == (["2"], ["50"])


async def test_a_manager_sees_and_changes_sandboxes_it_did_not_make(
    standin: StandIn, sandbox: Sandbox
) -> None:
    async with await SandboxManager.create() as manager:
        page = await manager.list_sandbox_infos(SandboxFilter())
        assert [info.id for info in page.sandbox_infos] == [sandbox.id]
        await manager.pause_sandbox(sandbox.id)
        assert (await manager.get_sandbox_info(sandbox.id)).status.state == "Paused"
        await manager.resume_sandbox(sandbox.id)
        renewed = await manager.renew_sandbox(sandbox.id, timedelta(hours=2))
        info = await manager.patch_sandbox_metadata(sandbox.id, {"k": "v"})
        assert (info.expires_at, info.metadata) == (renewed.expires_at, {"k": "v"})
        logs = await manager.get_diagnostic_logs(sandbox.id, "all")
        events = await manager.get_diagnostic_events(sandbox.id, "all")
        assert (logs.kind, events.kind) == ("logs", "events")
        await manager.kill_sandbox(sandbox.id)
    assert standin.sandboxes == {}


async def test_an_id_is_one_segment_of_the_path(standin: StandIn) -> None:
    async with await SandboxManager.create() as manager:
        with pytest.raises(SandboxApiException):
            await manager.get_sandbox_info("a/../b?c")
    assert standin.requests[0].path == "/v1/sandboxes/a%2F..%2Fb%3Fc"
