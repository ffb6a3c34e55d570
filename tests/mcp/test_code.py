# SPDX-License-Identifier: Apache-2.0
"""Code that keeps its state, in sandboxes of the embedded runtime."""

from base64 import b64decode
from collections.abc import Iterator

import pytest
from mcp.types import ImageContent

from tests.harness.server import Server, shared_server
from tests.mcp.agent import Agent, over_stdio

POINT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII="
)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Server]:
    """An OpenSandbox server on the embedded runtime, whose image has Python."""
    with shared_server("oci") as started:
        yield started


@pytest.fixture(scope="module")
def coder(embedded: Server) -> Iterator[Agent]:
    """An agent with a workspace."""
    with over_stdio(embedded, "--workspace") as agent:
        yield agent


def test_variables_stay_and_failures_are_told(coder: Agent) -> None:
    coder.do("code_run", code="x = 20")
    done = coder.do("code_run", code="print('here')\nx + 22")
    assert [value["text"] for value in done["result"]] == ["42"]
    assert done["logs"]["stdout"][0]["text"] == "here\n"
    assert done["error"] is None
    assert coder.do("code_run", code="missing")["error"]["name"] == "NameError"
    shell = coder.do("code_run", code="echo $((6 * 7))", language="bash")
    assert shell["logs"]["stdout"][0]["text"] == "42\n"


def test_a_picture_comes_as_a_picture(coder: Agent) -> None:
    code = f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{POINT}'))"
    result = coder.call("code_run", code=code)
    (picture,) = [part for part in result.content if isinstance(part, ImageContent)]
    assert picture.mime_type == "image/png"
    assert b64decode(picture.data) == b64decode(POINT)
    assert result.structured_content is not None
    assert result.structured_content["result"][0]["forms"] == ["image/png"]
    assert POINT not in str(result.structured_content)


def test_contexts_are_apart_listed_and_deleted(coder: Agent) -> None:
    made = coder.do("code_context_create", language="python", env={"WHO": "me"})
    here = {"context_id": made["id"]}
    done = coder.do("code_run", code="import os; os.environ['WHO']", **here)
    assert done["result"][0]["text"] == "'me'"
    assert coder.do("code_run", code="x", **here)["error"]["name"] == "NameError"
    assert made in coder.do("code_context_list", language="python")
    assert coder.do("code_context_delete", **here) == {"status": "deleted"}
    assert made not in coder.do("code_context_list")
    assert "CONTEXT_NOT_FOUND" in coder.refusal("code_run", code="x", **here)


def test_code_is_interrupted_and_keeps_its_variables(coder: Agent) -> None:
    here = {"context_id": coder.do("code_context_create")["id"]}
    marks = "import time\nx = 5\nwhile True: time.sleep(0.1)"
    coder.progress.clear()
    coder.reported.clear()
    running = coder.start("code_run", code=marks, **here)
    assert coder.reported.wait(60)  # a report on something that runs
    assert coder.do("code_interrupt", **here) == {"status": "interrupted"}
    stopped = running.result(60).structured_content
    assert stopped is not None
    assert stopped["error"]["name"] == "KeyboardInterrupt"
    assert coder.do("code_run", code="x", **here)["result"][0]["text"] == "5"


def test_long_output_is_cut_with_a_note(coder: Agent) -> None:
    done = coder.do("code_run", code="for n in range(100_000): print(n)")
    assert "write to a file" in done["note"]
    assert sum(len(line["text"]) for line in done["logs"]["stdout"]) < 40_000
