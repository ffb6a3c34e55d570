# SPDX-License-Identifier: Apache-2.0
"""Turns functions into tools: their schemas, their hints, their answers, their workspace form."""

import functools
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field, TypeAdapter

from opensandbox_mcp.sandboxes import WORKSPACE

ToolFunction = TypeVar("ToolFunction", bound=Callable[..., Awaitable[Any]])

SandboxId = Annotated[str, Field(description="Id of the sandbox.")]
ConnectIfMissing = Annotated[
    bool, Field(description="Connect to a sandbox that was not created or connected here.")
]

# What a conversation with a workspace need not say.
_SAID_BY_THE_WORKSPACE = {"sandbox_id": WORKSPACE, "connect_if_missing": True}


class Effect(Enum):
    """What calling a tool may change."""

    READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    DESTROYS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
    RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)


class Mode(Enum):
    """Where a tool is offered."""

    ALWAYS = "always"
    BY_ID = "by id"  # only where sandboxes are named by their ids
    WORKSPACE = "workspace"  # only where a conversation has a sandbox of its own


@dataclass(frozen=True)
class ToolSpec:
    """A function that is a tool."""

    function: Callable[..., Awaitable[Any]]
    effect: Effect
    mode: Mode

    def is_offered(self, *, has_workspace: bool) -> bool:
        """Whether it belongs to this kind of server."""
        unwanted = Mode.BY_ID if has_workspace else Mode.WORKSPACE
        return self.mode is not unwanted


class Family:
    """The tools of one file, in their order."""

    def __init__(self) -> None:
        """Start empty."""
        self.specs: list[ToolSpec] = []

    def tool(
        self, effect: Effect, mode: Mode = Mode.ALWAYS
    ) -> Callable[[ToolFunction], ToolFunction]:
        """Make the function below a tool. Its docstring is what a model reads about it."""

        def add(function: ToolFunction) -> ToolFunction:
            self.specs.append(ToolSpec(function, effect, mode))
            return function

        return add


def build_tool(spec: ToolSpec, *, has_workspace: bool) -> Tool:
    """Return the tool as the server offers it."""
    signature = inspect.signature(spec.function)
    given = {
        name: value
        for name, value in _SAID_BY_THE_WORKSPACE.items()
        if has_workspace and name in signature.parameters
    }
    answer = _Answer(signature.return_annotation)

    @functools.wraps(spec.function)
    async def call(**arguments: Any) -> CallToolResult:
        return answer.made_of(await spec.function(**arguments, **given))

    kept = [one for name, one in signature.parameters.items() if name not in given]
    call.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in kept}
    tool = Tool.from_function(
        call,
        description=inspect.getdoc(spec.function),
        annotations=spec.effect.value,
        structured_output=False,
    )
    tool.fn_metadata.output_schema = answer.schema
    return tool


class _Answer:
    """Makes results of what a function returns. Fields keep their names in Python."""

    def __init__(self, kind: Any) -> None:
        self.schema: dict[str, Any] | None = None
        if kind is CallToolResult:
            return
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = self._adapter.json_schema(by_alias=False, mode="serialization")
        # Structured content is an object; what is none is its "result".
        self._is_wrapped = schema.get("type") != "object"
        self.schema = _wrapped(schema) if self._is_wrapped else schema

    def made_of(self, value: Any) -> CallToolResult:
        if isinstance(value, CallToolResult):
            return value
        plain = self._adapter.dump_python(value, mode="json", by_alias=False)
        text = json.dumps(plain, ensure_ascii=False)
        return CallToolResult(
            content=[TextContent(text=text)],
            structured_content={"result": plain} if self._is_wrapped else plain,
        )


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs", None)
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
    }
    return whole | ({"$defs": definitions} if definitions else {})
