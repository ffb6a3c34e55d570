# SPDX-License-Identifier: Apache-2.0
"""Create, show, list, tag, delete."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlencode

from opensandbox_conformance.api import Api, Box


def test_a_created_sandbox_is_running_and_shows_what_was_asked(api: Api) -> None:
    box = api.create(metadata={"suite": "conformance"})
    info = box.info()
    assert info["status"]["state"] == "Running"
    assert info["image"] == {"uri": api.image}
    assert info["entrypoint"] == ["tail", "-f", "/dev/null"]
    assert info["metadata"] == {"suite": "conformance"}
    assert info["expiresAt"] == box.created["expiresAt"]


def test_the_answer_of_create_has_the_endpoints(box: Box) -> None:
    for port in (44772, 18080):
        assert box.created["endpoints"][str(port)] == box.endpoint(port)


def test_a_sandbox_without_timeout_has_no_end(api: Api) -> None:
    assert "expiresAt" not in api.create(timeout=None).info()


def test_a_list_filters_by_state_and_metadata(api: Api) -> None:
    one, other = api.create(metadata={"a/b": "1"}), api.create(metadata={"a/b": "2"})
    other.pause()

    def ids(query: str) -> set[str]:
        items = api.http.get(f"/sandboxes?{query}").json()["items"]
        return {item["id"] for item in items}

    assert one.id in ids("state=running&pageSize=200")
    assert other.id not in ids("state=running&pageSize=200")
    assert ids("metadata=" + quote(urlencode({"a/b": "2"}), safe="")) == {other.id}
    assert ids("metadata=" + quote("a/b=1", safe="")) == {one.id}


def test_tags_are_set_and_removed(api: Api) -> None:
    box = api.create(metadata={"a": "1", "b": "2"})
    answer = api.http.patch(f"{box.path}/metadata", json={"a": None, "c": "3"})
    assert (answer.status_code, answer.json()["metadata"]) == (200, {"b": "2", "c": "3"})


def test_a_deleted_sandbox_is_gone_for_everybody(api: Api, box: Box) -> None:
    way = box.endpoint(44772)
    assert api.http.delete(box.path).status_code == 204
    assert api.http.get(box.path).status_code == 404
    assert api.http.get(f"{box.path}/endpoints/44772").status_code == 404
    assert api.http.delete(box.path).status_code == 404
    gone = api.http.get(f"http://{way['endpoint']}/ping", headers=way["headers"])
    assert gone.status_code == 404


def test_an_idempotency_key_makes_one_sandbox(api: Api) -> None:
    def post(_: int) -> str:
        answer = api.post(api.create_request(), **{"Idempotency-Key": "conformance-once"})
        assert answer.status_code == 202, answer.text
        sandbox_id: str = answer.json()["id"]
        return sandbox_id

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(post, range(4)))) == 1


def test_several_creates_at_once_all_succeed(api: Api) -> None:
    with ThreadPoolExecutor(8) as pool:
        boxes = list(pool.map(lambda _: api.create(), range(8)))
        outputs = list(pool.map(lambda box: box.run("echo $OPENSANDBOX_ID").stdout, boxes))
    assert outputs == [box.id for box in boxes]
