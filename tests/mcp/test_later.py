# SPDX-License-Identifier: Apache-2.0
"""Snapshots and egress policies, by answers recorded from the contract."""

from collections.abc import Iterator

import pytest

from tests.harness.exchanges import SANDBOX, SNAPSHOT, Recorded, run_recorded
from tests.mcp.agent import Agent, over_stdio


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    with run_recorded() as running:
        yield running


@pytest.fixture(scope="module")
def later(recorded: Recorded) -> Iterator[Agent]:
    """A client of a server that can do everything."""
    with over_stdio(None, "--domain", recorded.domain, "--api-key", "any") as agent:
        yield agent


def test_a_snapshot_is_made_found_deleted_and_restored(later: Agent, recorded: Recorded) -> None:
    made = later.do("snapshot_create", sandbox_id=SANDBOX, name="before")
    assert (made["id"], made["sandbox_id"], made["name"]) == (SNAPSHOT, SANDBOX, "before")
    unnamed = later.do("snapshot_create", sandbox_id=SANDBOX)
    assert (unnamed["id"], unnamed.get("name")) == (SNAPSHOT, None)
    assert later.do("snapshot_get", snapshot_id=SNAPSHOT)["status"]["state"] == "Ready"
    states = ["Ready", "Creating"]
    wanted = {"sandbox_id": SANDBOX, "name": "before", "states": states, "page": 2, "page_size": 5}
    page = later.do("snapshot_list", filter=wanted)
    assert [one["id"] for one in page["snapshot_infos"]] == [SNAPSHOT]
    assert later.do("snapshot_delete", snapshot_id=SNAPSHOT) == {"status": "deleted"}
    restored = later.do("snapshot_restore", snapshot_id=SNAPSHOT, timeout_seconds=300)
    assert restored["sandbox_id"] == SANDBOX
    assert recorded.asked == [
        question for question, _ in recorded.exchanges if "/egress/" not in question.target
    ]


def test_an_egress_policy_is_read_and_changed(later: Agent, recorded: Recorded) -> None:
    here = {"sandbox_id": SANDBOX, "connect_if_missing": True}
    policy = later.do("egress_get_policy", **here)
    assert policy["default_action"] == "deny"
    assert policy["egress"][0] == {"action": "allow", "target": "pypi.org"}
    rules = [
        {"action": "allow", "target": "example.org"},
        {"action": "deny", "target": "192.0.2.0/24"},
    ]
    assert later.do("egress_patch_rules", **here, rules=rules)["default_action"] == "deny"
    later.do("egress_delete_rules", **here, targets=["pypi.org", "example.org"])
    wrong = [{"action": "allow", "target": "http://a"}]
    assert "\n" not in later.refusal("egress_patch_rules", **here, rules=wrong)
    changed = [question.body for question in recorded.asked if question.target == "/egress/policy"]
    assert [body for body in changed if body] == [rules, ["pypi.org", "example.org"], wrong]


def test_a_server_without_them_says_so_in_one_line(agent: Agent, sandbox_id: str) -> None:
    for tool, arguments in (
        ("snapshot_create", {"sandbox_id": sandbox_id}),
        ("egress_get_policy", {"sandbox_id": sandbox_id}),
    ):
        said = agent.refusal(tool, **arguments)
        assert said.startswith("["), said
        assert "\n" not in said
