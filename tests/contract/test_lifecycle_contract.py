# SPDX-License-Identifier: Apache-2.0
"""Requests generated from `specs/lifecycle.yaml`: whatever the server answers is documented there.

They go through the front door to a real server with the fake runtime, whose sandboxes are processes
of this machine: whatever the generator comes up with, their entrypoint is one that does nothing.
"""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
import yaml
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from server.tests.world import create_request
from tests.harness.server import API_KEY, Serving, serving

Case = schemathesis.Case[Any]

SPECIFICATION = Path(__file__).resolve().parents[2] / "specs" / "lifecycle.yaml"
DOCUMENT: dict[str, Any] = yaml.load(SPECIFICATION.read_text(), yaml.CSafeLoader)
EXAMPLES = 8  # for each operation, besides those at the edges of every schema
REQUEST_SECONDS = 20
HEADERS = {"OPEN-SANDBOX-API-KEY": API_KEY}
IDLE: list[Any] = ["tail", "-f", "/dev/null"]

CONFIG = schemathesis.Config.from_dict(
    {
        "generation": {"deterministic": True, "mode": "all", "max-examples": EXAMPLES},
        "phases": {"coverage": {"unexpected-methods": []}},
    }
)
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG).exclude(path_regex="/proxy/")
CONFORMANCE = [
    status_code_conformance,
    response_headers_conformance,
    content_type_conformance,
    response_schema_conformance,
]
settings = hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that ends its sandboxes when it ends."""
    data = tmp_path_factory.mktemp("contract") / "data"
    with serving(data, "--runtime", "fake", "--stop-sandboxes") as running:
        yield running


def tame(case: Case) -> None:
    """Let no generated program run."""
    body: Any = case.body
    words = body.get("entrypoint") if isinstance(body, dict) else None
    # What the server has to refuse stays as it is.
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
        case.body = {**body, "entrypoint": IDLE}


def ask(case: Case, server: Serving) -> schemathesis.Response:
    """Send the case with a key, and end what it made."""
    url = server.url if "open" in case.operation.tags else f"{server.url}/v1"
    answer = case.call(base_url=url, headers=HEADERS, timeout=REQUEST_SECONDS)
    if case.operation.label == "POST /sandboxes" and answer.status_code == 202:
        with server.client() as client:
            client.delete(f"/sandboxes/{answer.json()['id']}").raise_for_status()
    return answer


@SCHEMA.parametrize()
@settings
def test_every_answer_is_documented(case: Case, server: Serving) -> None:
    tame(case)
    case.validate_response(ask(case, server), checks=CONFORMANCE)
    if "sandboxId" not in (case.path_parameters or {}):
        return
    with server.client() as client:
        case.path_parameters = {**case.path_parameters, "sandboxId": existing(client)}
    case.validate_response(ask(case, server), checks=CONFORMANCE)


def existing(client: httpx.Client) -> str:
    """Return the id of a running sandbox; the one there is, unless a case ended or paused it."""
    running = client.get("/sandboxes", params={"state": "Running"}).json()["items"]
    if not running:
        return str(client.post("/sandboxes", json=create_request()).json()["id"])
    return str(running[0]["id"])


def test_an_answer_that_is_not_documented_is_found(server: Serving) -> None:
    specification = copy.deepcopy(DOCUMENT)
    del specification["paths"]["/sandboxes/{sandboxId}"]["get"]["responses"]["404"]
    schema = schemathesis.openapi.from_dict(specification, config=CONFIG)
    case = schema["/sandboxes/{sandboxId}"]["GET"].Case(path_parameters={"sandboxId": "unknown"})
    with pytest.raises(schemathesis.errors.FailureGroup, match="Undocumented status code"):
        case.validate_response(ask(case, server), checks=CONFORMANCE)
