# SPDX-License-Identifier: Apache-2.0
"""Points a generated request at something that exists, since made-up ids and paths never do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import schemathesis

from tests.contract.execution import frames
from tests.harness.execd import Daemon

FILE = "existing/file.txt"


@contextmanager
def aimed(case: schemathesis.Case[Any], daemon: Daemon) -> Iterator[bool]:
    """Change ``case`` so that its ids and paths exist; say whether there were any to change."""
    with _identifier(case.method, case.path, daemon.client) as identifier:
        if identifier and "id" in case.path_parameters:
            case.path_parameters = {**case.path_parameters, "id": identifier}
        elif identifier:
            case.query = {**(case.query or {}), "id": identifier}
        yield bool(identifier) or _aim_at_file(case, daemon)


@contextmanager
def _identifier(method: str, path: str, client: httpx.Client) -> Iterator[str]:
    match [method, *path.split("/")[1:]]:
        case ["DELETE", "command"] | ["POST", "command", _, "stdin"]:
            with _waiting_for_stdin(client) as identifier:
                yield identifier
        case [_, "command", *rest] if rest:
            body = {"command": "echo hi", "background": rest[-1] == "logs"}
            yield next(frames(client.post("/command", json=body).content))["text"]
        case [_, "session" | "pty" as kind, *rest] if rest:
            yield client.post(f"/{kind}").json()["session_id"]
        case [_, "code", "contexts", *rest] if rest:
            yield client.post("/code/context", json={"language": "bash"}).json()["id"]
        case _:
            yield ""


@contextmanager
def _waiting_for_stdin(client: httpx.Client) -> Iterator[str]:
    body = {"command": "cat", "stdin": True, "timeout": 1000}
    with client.stream("POST", "/command", json=body) as response:
        yield next(frames(next(response.iter_raw())))["text"]


def _aim_at_file(case: schemathesis.Case[Any], daemon: Daemon) -> bool:
    if "/files" not in case.path and "/directories" not in case.path:
        return False
    target = f"{daemon.workdir}/{FILE}"
    daemon.client.post("/command", json={"command": f"mkdir -p {target[:-9]}; echo hi >{target}"})
    if "/directories" in case.path:
        target = target.removesuffix("/file.txt")
    query = case.query or {}
    if "path" in query:
        case.query = {**query, "path": [target] if isinstance(query["path"], list) else target}
    case.body = _aimed_body(case.body, target)
    return True


def _aimed_body(body: Any, target: str) -> Any:
    match body:
        case {"metadata": [dict() as first, *rest]}:
            return {**body, "metadata": [{**first, "path": target}, *rest]}
        case dict() if "metadata" not in body and body:
            return {target: next(iter(body.values()))}
        case [{"src": _} as first, *rest]:
            return [{**first, "src": target}, *rest]
    return body
