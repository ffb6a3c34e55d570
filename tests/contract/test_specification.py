# SPDX-License-Identifier: Apache-2.0
"""`specs/execd.yaml` is valid, says everything outright, and has exactly the daemon's routes."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import openapi_spec_validator
import pytest

from tests.contract.specification import Operation, document, operations, resolve
from tests.harness.execd import TOKEN_HEADER, Daemon, run_daemon

DATAPLANE = Path(__file__).resolve().parents[2] / "dataplane" / "execd"
ROUTE = re.compile(r'"(GET|PUT|POST|DELETE|PATCH) (/[^"\s]*)"')
RIGHT = "the right token"
IDENTITY = "/v1/filesystem/{uid}/{gid}"


def shape(method: str, path: str) -> str:
    """Name a route without the names of its parameters."""
    return Operation(method.upper(), path, {}).method + " " + Operation("", path, {}).shape


def routes_in_source() -> Iterator[str]:
    """Yield the routes that the daemon's source registers; `/proxy` is not one of the router's."""
    for source in DATAPLANE.glob("*.go"):
        if source.name.endswith("_test.go"):
            continue
        for method, path in ROUTE.findall(source.read_text()):
            yield shape(method, path)
            if source.name == "files.go":
                yield shape(method, IDENTITY + path)


def test_the_specification_is_valid_openapi() -> None:
    openapi_spec_validator.validate(document())


def test_every_operation_says_each_answer_outright() -> None:
    for operation in operations():
        answers = set(operation.body["responses"])
        assert all(re.fullmatch("[1-5][0-9][0-9]", answer) for answer in answers), operation.name
        assert "401" in answers, operation.name


def test_operation_ids_are_unique() -> None:
    counts = Counter(operation.name for operation in operations())
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_error_body_has_a_code_and_a_message() -> None:
    for operation in operations():
        for status, response in operation.body["responses"].items():
            for media, content in resolve(response).get("content", {}).items():
                if status >= "400" and media == "application/json" and status != "401":
                    name = content["schema"]["$ref"].rsplit("/", 1)[1]
                    assert name in ("Error", "Readiness"), operation.name


def test_every_component_is_used() -> None:
    text = Path(__file__).parents[2].joinpath("specs/execd.yaml").read_text()
    for section, components in document()["components"].items():
        for name in components if section != "securitySchemes" else ():
            assert f'#/components/{section}/{name}"' in text, f"{section}/{name}"


def test_identity_and_isolated_variants_take_and_answer_what_the_plain_routes_do() -> None:
    by_shape = {(operation.method, operation.path): operation for operation in operations()}
    prefixes = {IDENTITY: set[str](), "/v1/isolated/session/{session}": {"503"}}
    plain = [o for o in operations() if o.path.startswith(("/files", "/directories"))]
    assert plain
    for operation in plain:
        for prefix, more in prefixes.items():
            variant = by_shape[(operation.method, prefix + operation.path)]
            for part in ("parameters", "requestBody"):
                assert variant.body.get(part) == operation.body.get(part), variant.path
            assert set(variant.body["responses"]) == set(operation.body["responses"]) | more


def test_every_route_in_the_source_is_in_the_specification() -> None:
    specified = {shape(operation.method, operation.path) for operation in operations()}
    registered = set(routes_in_source())
    assert len(registered) > 60
    assert registered - specified == set()


def test_every_operation_of_the_specification_is_a_route_of_the_daemon(
    throwaway_daemon: Daemon,
) -> None:
    for operation in operations():
        if operation.path.endswith("/watch"):
            continue  # it would not end; the generated requests reach it
        path = re.sub(r"{[^}]*}", "1", operation.path)
        response = throwaway_daemon.client.request(operation.method, path)
        assert response.status_code != 405, operation.name
        assert "no such route" not in response.text, operation.name


def test_a_method_without_an_operation_is_refused_and_the_answer_lists_the_others(
    throwaway_daemon: Daemon,
) -> None:
    for path, item in document()["paths"].items():
        if path.startswith("/proxy") or "put" in item:
            continue
        response = throwaway_daemon.client.put(re.sub(r"{[^}]*}", "1", path))
        assert response.status_code == 405, path
        assert response.json()["code"] == "NOT_SUPPORTED"
        allowed = set(response.headers["allow"].split(", ")) - {"HEAD"}
        assert allowed >= {method.upper() for method in item if method != "parameters"}, path


@pytest.mark.parametrize("given", [None, "wrong"], ids=["no token", "a wrong token"])
def test_every_operation_asks_for_the_token(given: str | None) -> None:
    headers = {} if given is None else {TOKEN_HEADER: given}
    with run_daemon("user", token=RIGHT) as daemon:
        assert daemon.client.get("/ping").status_code == 200
        del daemon.client.headers[TOKEN_HEADER]
        for operation in operations():
            path = re.sub(r"{[^}]*}", "1", operation.path)
            response = daemon.client.request(operation.method, path, headers=headers)
            assert response.status_code == 401, operation.name
            if operation.method != "head":
                assert set(response.json()) == {"error"}, operation.name
