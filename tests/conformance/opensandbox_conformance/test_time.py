# SPDX-License-Identifier: Apache-2.0
"""Pause, resume, renew and expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from opensandbox_conformance.api import Api, Box, eventually


def test_a_paused_sandbox_answers_409_at_once_and_goes_on_after_resume(api: Api, box: Box) -> None:
    marker = box.run("mktemp").stdout
    box.pause()
    assert box.state == "Paused"
    assert box.execd("GET", "/ping").status_code == 409
    assert api.http.post(f"{box.path}/resume").status_code == 202
    assert box.state == "Running"
    assert box.run(f"test -e {marker}").exit_code == 0


def test_a_paused_sandbox_does_nothing(api: Api, box: Box) -> None:
    counter = box.run("mktemp").stdout
    script = f"while :; do echo x >>{counter}; sleep 0.02; done"
    box.execd("POST", "/command", json={"command": script, "background": True})
    eventually(lambda: int(box.run(f"wc -c <{counter}").stdout) > 4)
    box.pause()
    api.http.post(f"{box.path}/resume")
    before = int(box.run(f"wc -c <{counter}").stdout)
    eventually(lambda: int(box.run(f"wc -c <{counter}").stdout) > before)


def test_pause_and_resume_need_their_state(api: Api, box: Box) -> None:
    answer = api.http.post(f"{box.path}/resume")
    assert answer.status_code == 409
    assert answer.json()["code"].endswith("::SANDBOX_NOT_PAUSED")
    box.pause()
    answer = api.http.post(f"{box.path}/pause")
    assert answer.status_code == 409
    assert answer.json()["code"].endswith("::SANDBOX_NOT_RUNNING")


def test_a_paused_sandbox_can_be_deleted(api: Api, box: Box) -> None:
    box.pause()
    assert api.http.delete(box.path).status_code == 204
    assert api.http.get(box.path).status_code == 404


def test_a_renewal_moves_the_end(api: Api, box: Box) -> None:
    until = datetime.now(UTC) + timedelta(hours=5)
    path = f"{box.path}/renew-expiration"
    answer = api.http.post(path, json={"expiresAt": until.isoformat()})
    assert answer.status_code == 200
    assert datetime.fromisoformat(answer.json()["expiresAt"]) == until
    assert datetime.fromisoformat(box.info()["expiresAt"]) == until
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    assert api.http.post(path, json={"expiresAt": past}).status_code == 400


def test_what_never_ends_cannot_be_renewed(api: Api) -> None:
    box = api.create(timeout=None)
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    answer = api.http.post(f"{box.path}/renew-expiration", json={"expiresAt": until})
    assert answer.status_code == 409


def test_at_its_time_a_sandbox_is_gone_paused_or_not(api: Api) -> None:
    boxes = [api.create(), api.create().pause()]
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    for box in boxes:
        api.http.post(f"{box.path}/renew-expiration", json={"expiresAt": soon}).raise_for_status()
    for box in boxes:
        eventually(lambda path=box.path: api.http.get(path).status_code == 404)  # type: ignore[misc]
