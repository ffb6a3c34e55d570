# SPDX-License-Identifier: Apache-2.0
"""``osb top``: what the sandboxes use, live."""

from __future__ import annotations

import asyncio
import shutil
import sys
from contextlib import AsyncExitStack
from datetime import datetime
from typing import TYPE_CHECKING

import click

from opensandbox_cli import progress
from opensandbox_cli.durations import age, left
from opensandbox_cli.invocation import Invocation, asynchronous
from opensandbox_cli.output import aligned
from opensandbox_cli.plain_text import without_controls

if TYPE_CHECKING:
    from opensandbox import Sandbox, SandboxManager
    from opensandbox.models.sandboxes import SandboxInfo, SandboxMetrics

TITLES = ["ID", "STATE", "CPU%", "MEM MIB", "OF", "AGE", "ENDS IN", "IMAGE"]
MOST = 100
OTHER_SCREEN, USUAL_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


@click.command()
@click.option("--once", is_flag=True, help="Print the table once, as a pipe also gets it.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    help="Seconds between two looks.",
)
@asynchronous
async def top(invocation: Invocation, once: bool, interval: float) -> None:
    """Show what the sandboxes use, live.

    The table is drawn again until Ctrl-C.
    """
    is_live = sys.stdout.isatty() and not once
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(invocation.manager(is_quiet=True))
        view = View(manager, invocation)
        stack.push_async_callback(view.close)
        async with progress.doing("asking the sandboxes"):  # the table itself tells of later ones
            rows = await view.rows()
        if not is_live:
            click.echo(aligned(rows))
            return
        sys.stdout.write(OTHER_SCREEN)
        stack.callback(_leave_screen)
        while True:
            _draw(rows)
            await asyncio.sleep(interval)
            rows = await view.rows()


class View:
    """What is on the screen: every sandbox, and the connections to those that run."""

    def __init__(self, manager: SandboxManager, invocation: Invocation) -> None:
        """Look through ``manager``."""
        self._manager = manager
        self._invocation = invocation
        self._held: dict[str, Sandbox] = {}

    async def rows(self) -> list[list[str]]:
        """Look at everything once."""
        from opensandbox.models.sandboxes import SandboxFilter

        page = await self._manager.list_sandbox_infos(SandboxFilter(page_size=MOST))
        infos = page.sandbox_infos
        await self._forget_all_but({info.id for info in infos})
        used = await asyncio.gather(*(self._metrics(info) for info in infos))
        now = datetime.now().astimezone()
        return [
            TITLES,
            *(_row(info, metrics, now) for info, metrics in zip(infos, used, strict=True)),
        ]

    async def close(self) -> None:
        """Close the connections."""
        await self._forget_all_but(set())

    async def _forget_all_but(self, alive: set[str]) -> None:
        for sandbox_id in self._held.keys() - alive:
            await self._held.pop(sandbox_id).close()

    async def _metrics(self, info: SandboxInfo) -> SandboxMetrics | None:
        from opensandbox import Sandbox
        from opensandbox.exceptions import SandboxException

        if info.status.state != "Running":
            return None
        try:
            if info.id not in self._held:
                config = self._invocation.config()
                held = await Sandbox.connect(info.id, config, skip_health_check=True)
                self._held[info.id] = held
            return await self._held[info.id].get_metrics()
        except SandboxException:
            return None  # it ended between two questions, or is too busy: its row says the rest


def _row(info: SandboxInfo, used: SandboxMetrics | None, now: datetime) -> list[str]:
    return [
        info.id,
        without_controls(info.status.state),
        f"{used.cpu_used_percentage:.1f}" if used else "-",
        f"{used.memory_used_in_mib:.0f}" if used else "-",
        f"{used.memory_total_in_mib:.0f}" if used else "-",
        age(info.created_at, now),
        left(info.expires_at, now),
        without_controls(info.image.image) if info.image else "",
    ]


def _draw(rows: list[list[str]]) -> None:
    columns, height = shutil.get_terminal_size()
    time = datetime.now().strftime("%H:%M:%S")
    lines = [f"{time}  {len(rows) - 1} sandboxes; Ctrl-C ends this", "", *aligned(rows).split("\n")]
    shown = [line[:columns] + CLEAR_LINE for line in lines[: height - 1]]
    sys.stdout.write(HOME + "\r\n".join(shown) + CLEAR_BELOW)
    sys.stdout.flush()


def _leave_screen() -> None:
    sys.stdout.write(USUAL_SCREEN)
    sys.stdout.flush()
