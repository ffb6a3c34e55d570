# SPDX-License-Identifier: Apache-2.0
"""Snapshots and egress policies, by answers recorded from the contract."""

from collections.abc import Iterator

import pytest

from tests.mcp.agent import Agent, over_stdio
from tests.mcp.recorded import SANDBOX, SNAPSHOT, Recorded, run_recorded


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    with run_recorded() as running:
        yield running


@pytest.fixture(scope="module")
def later(recorded: Recorded) -> Iterator[Agent]:
    """A client of a server that can do everything."""
    with over_stdio(None, "--domain", recorded.domain, "--api-key", "any") as agent:
        yield agent


def test_a_snapshot_is_made_found_restored_and_deleted(later: Agent, recorded: Recorded) -> None:
    made = later.do("snapshot_create", sandbox_id=SANDBOX, name="before")
    assert (made["id"], made["sandbox_id"], made["name"]) == (SNAPSHOT, SANDBOX, "before")
    assert recorded.asked[-1] == (f"POST /v1/sandboxes/{SANDBOX}/snapshots", {"name": "before"})
    assert later.do("snapshot_get", snapshot_id=SNAPSHOT)["status"]["state"] == "Ready"
    page = later.do("snapshot_list", filter={"name": "before", "page_size": 5})
    assert [one["id"] for one in page["snapshot_infos"]] == [SNAPSHOT]
    restored = later.do("snapshot_restore", snapshot_id=SNAPSHOT, timeout_seconds=120)
    assert restored["info"]["snapshot_id"] == SNAPSHOT
    (body,) = (body for question, body in recorded.asked if question == "POST /v1/sandboxes")
    assert (body["snapshotId"], body["timeout"]) == (SNAPSHOT, 120)
    assert later.do("snapshot_delete", snapshot_id=SNAPSHOT) == {"status": "deleted"}


def test_an_egress_policy_is_read_and_changed(later: Agent, recorded: Recorded) -> None:
    here = {"sandbox_id": SANDBOX, "connect_if_missing": True}
    policy = later.do("egress_get_policy", **here)
    assert policy["default_action"] == "deny"
    assert policy["egress"] == [{"action": "allow", "target": "pypi.org"}]
    rules = [{"action": "deny", "target": "example.com"}]
    assert later.do("egress_patch_rules", **here, rules=rules)["default_action"] == "deny"
    assert ("PATCH /egress/policy", rules) in recorded.asked
    later.do("egress_delete_rules", **here, targets=["example.com"])
    assert ("DELETE /egress/policy", ["example.com"]) in recorded.asked


def test_a_server_without_them_says_so_in_one_line(agent: Agent, sandbox_id: str) -> None:
    for tool, arguments in (
        ("snapshot_create", {"sandbox_id": sandbox_id}),
        ("egress_get_policy", {"sandbox_id": sandbox_id}),
    ):
        said = agent.refusal(tool, **arguments)
        assert said.startswith("["), said
        assert "\n" not in said
