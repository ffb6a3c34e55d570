# SPDX-License-Identifier: Apache-2.0
"""Code in interpreters that stay: variables and imports are kept from one run to the next."""

from datetime import timedelta
from typing import Annotated

from mcp.types import CallToolResult, ImageContent, TextContent
from pydantic import Field

from opensandbox.models import CodeContext, ExecutionResult
from opensandbox_mcp.output import SHOWN, cut_in_the_middle
from opensandbox_mcp.results import CodeResult, CommandResult, Status, Value
from opensandbox_mcp.running import run_watched
from opensandbox_mcp.sandboxes import Call, sandboxes_of
from opensandbox_mcp.toolbox import ConnectIfMissing, Effect, Family, SandboxId
from opensandbox_mcp.tools.commands import Directory, Timeout

family = Family()

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The kinds that models take; of one value the first is shown."""

ContextId = Annotated[str, Field(description="The id in the result of code_context_create.")]
Language = Annotated[
    str, Field(description="python, javascript, typescript, java, go or bash, as the image has.")
]


@family.tool(Effect.CHANGES)
async def code_context_create(
    call: Call,
    sandbox_id: SandboxId,
    language: Language = "python",
    working_directory: Directory = None,
    env: Annotated[dict[str, str] | None, Field(description="Variables for it alone.")] = None,
    connect_if_missing: ConnectIfMissing = False,
) -> CodeContext:
    """Start an interpreter that stays, for code_run with its context_id."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return await sandbox.codes.create_context(
            language, working_directory=working_directory, envs=env
        )


@family.tool(Effect.READS)
async def code_context_list(
    call: Call,
    sandbox_id: SandboxId,
    language: Annotated[str, Field(description="Only those of a language.")] = "",
    connect_if_missing: ConnectIfMissing = False,
) -> list[CodeContext]:
    """List the interpreters that stay."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        return await sandbox.codes.list_contexts(language)


@family.tool(Effect.DESTROYS)
async def code_context_delete(
    call: Call,
    sandbox_id: SandboxId,
    context_id: ContextId,
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """End an interpreter and what runs in it."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.codes.delete_context(context_id)
    return Status(status="deleted")


@family.tool(Effect.RUNS)
async def code_run(
    call: Call,
    sandbox_id: SandboxId,
    code: Annotated[str, Field(description="What to run; its last expression is its value.")],
    language: Language = "python",
    context_id: Annotated[
        str | None, Field(description="An interpreter of its own; else the language's default.")
    ] = None,
    timeout_seconds: Timeout = None,
    connect_if_missing: ConnectIfMissing = False,
) -> CallToolResult:
    """Run code and return its output, values, error and pictures. Variables stay for the next run.

    Code that fails is no error of the call: look at error. Cancelling the call interrupts the code.
    """
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        codes = sandbox.codes
        context = CodeContext(language=language)
        if context_id is not None:
            context = await codes.get_context(context_id)
        timeout = None if timeout_seconds is None else timedelta(seconds=timeout_seconds)
        done = await run_watched(
            call,
            lambda handlers: codes.run(code, context=context, handlers=handlers, timeout=timeout),
            read_on="Print less, or write to a file and read that",
        )
    return _answer(done)


@family.tool(Effect.DESTROYS)
async def code_interrupt(
    call: Call,
    sandbox_id: SandboxId,
    context_id: Annotated[str, Field(description="Of a context, or the id of a run.")],
    connect_if_missing: ConnectIfMissing = False,
) -> Status:
    """Interrupt the code that runs; variables stay."""
    async with sandboxes_of(call).use(call, sandbox_id, connect_if_missing) as sandbox:
        await sandbox.codes.interrupt(context_id)
    return Status(status="interrupted")


def _answer(done: CommandResult) -> CallToolResult:
    result = CodeResult(
        id=done.id,
        result=[_value(one) for one in done.result],
        error=done.error,
        logs=done.logs,
        note=done.note,
    )
    pictures = [picture for one in done.result for picture in _pictures(one)]
    return CallToolResult(
        content=[TextContent(text=result.model_dump_json()), *pictures],
        structured_content=result.model_dump(mode="json"),
    )


def _value(result: ExecutionResult) -> Value:
    text = None if result.text is None else cut_in_the_middle(result.text, SHOWN)
    return Value(text=text, forms=sorted(result.extra_properties), chart=result.chart)


def _pictures(result: ExecutionResult) -> list[ImageContent]:
    forms = result.extra_properties
    found = [ImageContent(data=forms[kind], mime_type=kind) for kind in PICTURES if kind in forms]
    return found[:1]
