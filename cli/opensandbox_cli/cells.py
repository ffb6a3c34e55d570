# SPDX-License-Identifier: Apache-2.0
"""Runs pieces of code in one context, those that somebody types or those of a pipe."""

from __future__ import annotations

import ast
import asyncio
import codeop
import signal
from base64 import b64decode
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opensandbox_cli.executing import STDERR, STDIN, STDOUT
from opensandbox_cli.streams import InputStream, OutputStream, has_piped_input

if TYPE_CHECKING:
    from opensandbox import Sandbox
    from opensandbox.models import (
        CodeContext,
        ExecutionError,
        ExecutionResult,
        OutputMessage,
    )

PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/svg+xml": "svg"}
FIRST_PROMPT, NEXT_PROMPT = b">>> ", b"... "


class Cells:
    """One context, and where what it says goes."""

    def __init__(self, sandbox: Sandbox, context: CodeContext, save: Path | None) -> None:
        """Hold a context; pictures go to ``save``."""
        self._codes = sandbox.codes
        self._context = context
        self._save = save
        self._pictures = 0
        self._input = InputStream(STDIN)
        self._stdout = OutputStream(STDOUT)
        self._stderr = OutputStream(STDERR)
        self._is_running = False
        self._interrupting: asyncio.Task[None] | None = None

    async def run(self, text: str | None) -> bool:
        """Run a text, what is piped in, or what is typed; say whether all went well."""
        if text is not None:
            return await self._run_one(text)
        if has_piped_input():
            return await self._run_one(await self._read_all())
        await self._converse()
        return True

    async def _run_one(self, text: str) -> bool:
        from opensandbox.models import ExecutionHandlers

        if not text.strip():
            return True
        handlers = ExecutionHandlers(
            on_stdout=self._on_stdout,
            on_stderr=self._on_stderr,
            on_result=self._on_result,
            on_error=self._on_error,
            skip_accumulation=True,
        )
        self._is_running = True
        try:
            execution = await self._codes.run(text, context=self._context, handlers=handlers)
        finally:
            self._is_running = False
        return execution.error is None

    async def _converse(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        try:
            while (text := await self._read_cell()) is not None:
                await self._run_one(text)
            await self._stdout.write(b"\n")
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            if self._interrupting:
                await self._interrupting

    async def _read_cell(self) -> str | None:
        """Return what is typed until it is whole; None at the end of the input."""
        lines: list[str] = []
        while True:
            await self._stdout.write(NEXT_PROMPT if lines else FIRST_PROMPT)
            line = await self._input.read()  # a terminal gives one line at a time
            if not line:
                return None
            lines.append(line.decode(errors="replace").rstrip("\n"))
            if is_whole(self._context.language, lines):
                return "\n".join(lines)

    async def _read_all(self) -> str:
        pieces: list[bytes] = []
        while piece := await self._input.read():
            pieces.append(piece)
        return b"".join(pieces).decode(errors="replace")

    def _on_interrupt(self) -> None:
        if self._is_running:
            self._interrupting = asyncio.create_task(self._interrupt(), name="interrupt")
        else:
            click.echo("\n(Ctrl-D ends)", err=True)

    async def _interrupt(self) -> None:
        from opensandbox.exceptions import SandboxException

        with suppress(SandboxException):  # it has just ended by itself
            await self._codes.interrupt(str(self._context.id))

    async def _on_stdout(self, message: OutputMessage) -> None:
        await self._stdout.write(message.text.encode())

    async def _on_stderr(self, message: OutputMessage) -> None:
        await self._stderr.write(message.text.encode())

    async def _on_result(self, result: ExecutionResult) -> None:
        if result.text:
            await self._stdout.write(f"{result.text.rstrip()}\n".encode())
        for media, ending in PICTURES.items():
            if picture := result.extra_properties.get(media):
                await self._keep(picture, ending)
                return

    async def _on_error(self, error: ExecutionError) -> None:
        message = "\n".join(error.traceback) or f"{error.name}: {error.value}"
        await self._stderr.write(f"{message.rstrip()}\n".encode())

    async def _keep(self, picture: str, ending: str) -> None:
        if self._save is None:
            click.echo("osb: there is a picture; --save DIR keeps them", err=True)
            return
        self._pictures += 1
        path = self._save / f"picture-{self._pictures}.{ending}"
        self._save.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture.encode() if ending == "svg" else b64decode(picture))
        click.echo(f"osb: wrote {path}", err=True)


def is_whole(language: str, lines: list[str]) -> bool:
    """Tell whether lines can be run; those that make no sense can, and the sandbox will say so."""
    text = "\n".join(lines)
    if language == "python":
        compiler = codeop.CommandCompiler()
        compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        try:
            return compiler(text) is not None
        except (SyntaxError, ValueError, OverflowError):
            return True
    is_open = sum(map(text.count, "([{")) > sum(map(text.count, ")]}")) or text.endswith("\\")
    return not is_open or not lines[-1].strip()
