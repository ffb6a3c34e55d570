# SPDX-License-Identifier: Apache-2.0
"""Requests generated from `specs/execd.yaml`: whatever the daemon answers is documented there.

The daemon runs in a throw-away root, a fresh one for each operation, since among the requests are
`DELETE /directories?path=/` and whatever shell text the generator comes up with.
"""

import copy
import io
import json
import tarfile
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import strategies
from jsonschema.exceptions import best_match
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.contract.existing import aimed
from tests.contract.first_frame import FirstFrameSession
from tests.contract.specification import document, resolve, validator
from tests.harness.execd import Daemon

Case = schemathesis.Case[Any]

EXAMPLES = 25  # for each operation, besides those at the edges of every schema
REQUEST_SECONDS = 20
COMMAND_MILLISECONDS = 1000  # no generated command may go on for longer
MAX_TIMEOUT = document()["components"]["schemas"]["Timeout"]["maximum"]

CONFIG = schemathesis.Config.from_dict(
    {
        "generation": {"deterministic": True, "mode": "all", "max-examples": EXAMPLES},
        "phases": {"coverage": {"unexpected-methods": []}},
    }
)


def tar_of(names: list[str]) -> bytes:
    """Pack small files of any names, good or bad."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = len(name.encode())
            archive.addfile(entry, io.BytesIO(name.encode()))
    return packed.getvalue()


names = strategies.sampled_from(["a", "b/c", "../d", "/e", "a/f", "\u00e9", "x" * 300])
schemathesis.openapi.media_type(
    "application/x-tar", strategies.lists(names, max_size=4).map(tar_of) | strategies.binary()
)


@schemathesis.serializer("application/x-tar")
def serialize_tar(_: schemathesis.SerializationContext, value: Any) -> Any:
    """Send an archive as it is."""
    return value if isinstance(value, bytes) else str(value).encode()


SCHEMA = schemathesis.openapi.from_dict(document(), config=CONFIG)


def documented(response: schemathesis.Response, case: Case) -> dict[str, Any]:
    """Return what the specification says of this answer."""
    responses = case.operation.definition.raw["responses"]
    found: dict[str, Any] = resolve(responses.get(str(response.status_code), {}))
    return found


def body_conformance(context: Any, response: schemathesis.Response, case: Case) -> None:
    """Check content type and schema of a body, if there is one or has to be."""
    if response.content or not documented(response, case).get("x-may-be-empty"):
        content_type_conformance(context, response, case)
        response_schema_conformance(context, response, case)


def frame_conformance(_: Any, response: schemathesis.Response, case: Case) -> None:
    """Check every whole frame of a stream against the schema that the operation names."""
    media = documented(response, case).get("content", {}).get("text/event-stream")
    if media is None:
        return
    *frames, _rest = response.content.split(media["x-frame-end"].encode())
    assert frames, "a stream without any frame"
    for frame in frames:
        error = best_match(validator(media["x-frame-schema"]).iter_errors(json.loads(frame)))
        assert error is None, f"{error.message} in the frame {frame!r}"


CONFORMANCE = [
    status_code_conformance,
    response_headers_conformance,
    body_conformance,
    frame_conformance,
]
settings = hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def bound(case: Case) -> None:
    """Keep what the case starts from going on for ever."""
    body = case.body
    if case.operation.label in ("POST /command", "POST /session/{id}/run") and isinstance(
        body, dict
    ):
        timeout = body.get("timeout")
        # What the daemon has to refuse stays as it is.
        if timeout is None or (type(timeout) is int and 0 <= timeout <= MAX_TIMEOUT):
            case.body = {**body, "timeout": COMMAND_MILLISECONDS}


def ask(case: Case, daemon: Daemon) -> schemathesis.Response:
    """Send the case; of a watch, take only the first frame."""
    with FirstFrameSession() as session:
        return case.call(base_url=daemon.url, session=session, timeout=REQUEST_SECONDS)


@SCHEMA.parametrize()
@settings
def test_every_answer_is_documented(case: Case, throwaway_daemon: Daemon) -> None:
    bound(case)
    response = ask(case, throwaway_daemon)
    case.validate_response(response, checks=[*CONFORMANCE, negative_data_rejection])
    with aimed(case, throwaway_daemon) as is_aimed:
        if is_aimed:
            response = ask(case, throwaway_daemon)
            case.validate_response(response, checks=CONFORMANCE)


@pytest.mark.parametrize("prefix", ["", "/v1/filesystem/{uid}/{gid}"], ids=["plain", "identity"])
def test_an_upload_of_pairs_is_answered_as_documented(
    prefix: str, throwaway_daemon: Daemon
) -> None:
    # The generator sends an array as one part, so that none of its uploads gets through.
    metadata = json.dumps({"path": f"{throwaway_daemon.workdir}/new/a", "mode": 644, "owner": None})
    pair: list[tuple[str, tuple[str, bytes, str]]] = [
        ("metadata", ("metadata", metadata.encode(), "application/json")),
        ("file", ("a", b"content", "application/octet-stream")),
    ]
    ids = {"uid": 0, "gid": 0} if prefix else {}
    case = SCHEMA[f"{prefix}/files/upload"]["POST"].Case(path_parameters=ids)
    url = throwaway_daemon.url + prefix.format(**ids) + "/files/upload"
    for parts, status in ((pair, 200), (pair * 2, 200), (pair[:1], 400), (pair[1:], 400)):
        response = requests.post(url, files=parts, timeout=REQUEST_SECONDS)
        assert response.status_code == status, response.text
        case.validate_response(response, checks=CONFORMANCE)


def test_an_answer_that_is_not_documented_is_found(throwaway_daemon: Daemon) -> None:
    specification = copy.deepcopy(document())
    del specification["paths"]["/command/status/{id}"]["get"]["responses"]["404"]
    schema = schemathesis.openapi.from_dict(specification, config=CONFIG)
    case = schema["/command/status/{id}"]["GET"].Case(path_parameters={"id": "unknown"})
    response = case.call(base_url=throwaway_daemon.url)
    with pytest.raises(schemathesis.errors.FailureGroup, match="Undocumented status code"):
        case.validate_response(response, checks=CONFORMANCE)


def test_a_body_that_is_not_as_documented_is_found(throwaway_daemon: Daemon) -> None:
    specification = copy.deepcopy(document())
    specification["components"]["schemas"]["Error"]["required"].append("remedy")
    schema = schemathesis.openapi.from_dict(specification, config=CONFIG)
    case = schema["/command/status/{id}"]["GET"].Case(path_parameters={"id": "unknown"})
    response = case.call(base_url=throwaway_daemon.url)
    with pytest.raises(schemathesis.errors.FailureGroup, match="remedy"):
        case.validate_response(response, checks=CONFORMANCE)


def test_a_frame_that_is_not_as_documented_is_found(throwaway_daemon: Daemon) -> None:
    specification = copy.deepcopy(document())
    responses = specification["paths"]["/command"]["post"]["responses"]
    responses["200"] = copy.deepcopy(resolve(responses["200"]))
    frames = responses["200"]["content"]["text/event-stream"]
    frames["x-frame-schema"] = "#/components/schemas/Metrics"
    schema = schemathesis.openapi.from_dict(specification, config=CONFIG)
    case = schema["/command"]["POST"].Case(body={"command": "echo hi"})
    response = case.call(base_url=throwaway_daemon.url)
    with pytest.raises(schemathesis.errors.FailureGroup, match="cpu_count"):
        case.validate_response(response, checks=CONFORMANCE)
