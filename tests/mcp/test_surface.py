# SPDX-License-Identifier: Apache-2.0
"""What clients of the published server find here: the same tools, parameters and answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Tool

from tests.mcp.agent import Agent, over_stdio

HERE = Path(__file__).parent
PUBLISHED: dict[str, Any] = json.loads((HERE / "published_tools.json").read_text())
"""From the tool list of `opensandbox-mcp` 1.1.1."""


@pytest.fixture(scope="module")
def lonely() -> Iterator[Agent]:
    """A server that needs no OpenSandbox server: nothing but its lists is asked for."""
    with over_stdio(None, "--domain", "127.0.0.1:1") as agent:
        yield agent


@pytest.fixture(scope="module")
def tools(lonely: Agent) -> dict[str, Tool]:
    return {tool.name: tool for tool in lonely.portal.call(lonely.client.list_tools).tools}


def test_the_server_says_who_it_is(lonely: Agent) -> None:
    assert lonely.client.server_info is not None
    assert lonely.client.server_info.name == "OpenSandbox Sandbox"
    assert "sandbox_create" in (lonely.client.instructions or "")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_tool_takes_what_it_took(tools: dict[str, Tool], name: str) -> None:
    schema = tools[name].input_schema
    for parameter, published in PUBLISHED[name]["parameters"].items():
        is_required = parameter in schema.get("required", [])
        assert is_required == published.get("required", False), parameter
        if not is_required:
            assert schema["properties"][parameter]["default"] == published["default"], parameter
    more = set(schema.get("required", [])) - set(PUBLISHED[name]["parameters"])
    assert more == set()


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_tool_answers_with_what_it_did(tools: dict[str, Tool], name: str) -> None:
    schema = tools[name].output_schema
    assert schema is not None
    assert missing(PUBLISHED[name]["result"], schema, schema.get("$defs", {})) == []


def missing(published: Any, schema: dict[str, Any], definitions: Any, at: str = "") -> list[str]:
    """Name the fields of a published answer that a schema does not have."""
    schema = resolved(schema, definitions)
    if isinstance(published, list):
        return missing(published[0], schema["items"], definitions, f"{at}[]")
    if not isinstance(published, dict):
        return []
    have = schema.get("properties", {})
    absent = [f"{at}.{field}" for field in published if field not in have]
    return absent + [
        one
        for field, inner in published.items()
        if field in have
        for one in missing(inner, have[field], definitions, f"{at}.{field}")
    ]


def resolved(schema: dict[str, Any], definitions: Any) -> dict[str, Any]:
    if "anyOf" in schema:
        (schema,) = (one for one in schema["anyOf"] if one.get("type") != "null")
    if "$ref" in schema:
        return resolved(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return schema


def test_every_tool_and_parameter_is_explained(tools: dict[str, Tool]) -> None:
    unexplained = [
        f"{tool.name}.{name}"
        for tool in tools.values()
        for name, schema in tool.input_schema["properties"].items()
        if not schema.get("description") and name != "entries"
    ]
    assert unexplained == []
    assert [tool.name for tool in tools.values() if not tool.description] == []
    assert [tool.name for tool in tools.values() if tool.annotations is None] == []


def test_every_tool_is_called_by_a_test(tools: dict[str, Tool]) -> None:
    text = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert [name for name in tools if f'"{name}"' not in text] == []
