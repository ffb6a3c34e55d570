# SPDX-License-Identifier: Apache-2.0
"""A create succeeds when the entrypoint could be started; how it ends is the sandbox's state."""

from __future__ import annotations

import pytest

from opensandbox_conformance.api import Api, eventually


@pytest.mark.parametrize(
    ("entrypoint", "state", "reason"),
    [
        (["true"], "Terminated", "CONTAINER_EXITED"),
        (["sh", "-c", "echo bad; exit 3"], "Failed", "CONTAINER_EXITED_ERROR"),
        (["sh", "-c", "kill -9 $$"], "Failed", "CONTAINER_EXITED_ERROR"),
    ],
)
def test_an_entrypoint_that_ends_at_once_is_a_sandbox_that_has_ended(
    api: Api, entrypoint: list[str], state: str, reason: str
) -> None:
    boxes = [api.create(entrypoint=entrypoint) for _ in range(5)]
    for box in boxes:
        eventually(lambda box=box: box.state != "Running")  # type: ignore[misc]
        status = box.info()["status"]
        assert (status["state"], status["reason"]) == (state, reason)


@pytest.mark.parametrize("entrypoint", [["no-such-program"], ["/no/such/program"], ["/etc/passwd"]])
def test_an_entrypoint_that_cannot_be_started_fails_the_create(
    api: Api, entrypoint: list[str]
) -> None:
    for _ in range(3):
        answer = api.post(api.create_request(entrypoint=entrypoint))
        assert answer.status_code == 500
        assert answer.json()["code"].endswith("::SANDBOX_START_FAILED")
        assert entrypoint[0] in answer.json()["message"]
    assert api.http.get("/sandboxes").json()["items"] == []
