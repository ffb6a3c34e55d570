# SPDX-License-Identifier: Apache-2.0
"""What is refused, and how."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from opensandbox_conformance.api import Api

NOBODY = "/sandboxes/00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", NOBODY),
        ("DELETE", NOBODY),
        ("POST", f"{NOBODY}/pause"),
        ("POST", f"{NOBODY}/resume"),
        ("GET", f"{NOBODY}/endpoints/44772"),
        ("GET", f"{NOBODY}/diagnostics/inspect"),
    ],
)
def test_an_unknown_sandbox_is_404(api: Api, method: str, path: str) -> None:
    answer = api.http.request(method, path)
    assert answer.status_code == 404
    assert answer.json()["code"].endswith("::SANDBOX_NOT_FOUND")
    assert answer.headers["x-request-id"]


def test_the_proxy_of_an_unknown_sandbox_is_404(api: Api) -> None:
    assert api.http.get(f"{NOBODY}/proxy/8080/").status_code == 404


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"image": None}, 422),
        ({"entrypoint": None}, 422),
        ({"resourceLimits": None}, 422),
        ({"timeout": 59}, 422),
        ({"env": {"OPENSANDBOX_LIFECYCLE": "x"}}, 422),
        ({"resourceLimits": {"cpu": "lots"}}, 400),
        ({"resourceLimits": {"memory": "2Xi"}}, 400),
        ({"metadata": {"opensandbox.io/id": "x"}}, 400),
        ({"extensions": {"access.renew.extend.seconds": "1"}}, 400),
        ({"image": {"uri": "unknown/image:that-does-not-exist"}}, 500),
    ],
)
def test_a_create_that_is_refused_leaves_nothing(
    api: Api, changes: dict[str, Any], status: int
) -> None:
    before = api.http.get("/sandboxes").json()["pagination"]["totalItems"]
    answer = api.post(api.create_request(**changes))
    assert answer.status_code == status, answer.text
    expected = {"detail"} if status == 422 else {"code", "message"}
    assert set(answer.json()) == expected
    assert api.http.get("/sandboxes").json()["pagination"]["totalItems"] == before


def test_an_unknown_image_names_the_way_to_get_it(api: Api) -> None:
    answer = api.post(api.create_request(image={"uri": "unknown/image:that-does-not-exist"}))
    assert answer.json()["code"].endswith("::SANDBOX_IMAGE_PULL_FAILED")
    assert "unknown/image:that-does-not-exist" in answer.json()["message"]


@pytest.mark.parametrize("port", [0, 65536])
def test_what_is_no_port_is_refused(api: Api, port: int) -> None:
    box = api.create()
    answer = api.http.get(f"{box.path}/endpoints/{port}")
    assert answer.status_code == 400
    assert answer.json()["code"].endswith("::INVALID_PORT")


def test_without_a_key_the_api_is_closed(api: Api) -> None:
    assert httpx.get(f"{api.url}/v1/sandboxes").json()["code"] == "MISSING_API_KEY"
    wrong = {"OPEN-SANDBOX-API-KEY": "wrong"}
    assert httpx.get(f"{api.url}/v1/sandboxes", headers=wrong).json()["code"] == "INVALID_API_KEY"
    assert httpx.get(f"{api.url}/health").json() == {"status": "healthy"}
