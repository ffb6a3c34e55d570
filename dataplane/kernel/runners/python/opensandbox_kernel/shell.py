# SPDX-License-Identifier: Apache-2.0
"""An IPython shell that says results, displays and errors to the daemon."""

from __future__ import annotations

import builtins
import importlib
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from IPython.core import page
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from .charts import tell_charts
from .wire import Wire, flush_output

for _module in ("IPython.core.oinspect", "asyncio", "pdb", "code", "random"):
    importlib.import_module(_module)  # what cells need sooner or later, once for all contexts

_HIDDEN = "[... skipping hidden"  # IPython's word for frames of ours
_OUR_FRAME = f"File {Path(__file__).parent.parent}/"
PRELOADED = "OPENSANDBOX_PYTHON_PRELOAD"
"""Names modules to import before any cell runs, with commas between them."""
INLINE = "module://matplotlib_inline.backend_inline"


class StdinNotImplementedError(RuntimeError):
    """Code asked for input, and nobody is there to give it."""


class Values(DisplayHook):
    """Says the value of the last expression of a cell."""

    def write_output_prompt(self) -> None:
        """Say nothing: the count goes with the value."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        """Say the value in every form it has."""
        shell: Shell = self.shell
        shell.show(format_dict, count=shell.cell_count)

    def log_output(self, format_dict: dict[str, Any]) -> None:
        """Keep nothing: there is no history."""

    def finish_displayhook(self) -> None:
        """Leave standard output alone."""


class Displays(DisplayPublisher):
    """Says what code displays."""

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *args: Any,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **rest: Any,
    ) -> None:
        """Say it, with the id that a later update names."""
        shell: Shell = self.shell
        display_id = (transient or {}).get("display_id")
        shell.show(data, **({"display_id": str(display_id)} if display_id else {}), update=update)

    def clear_output(self, wait: bool = False) -> None:
        """Do nothing: what was sent stays sent."""


class RanWithoutShell(Protocol):
    """A cell that has run before there was a shell, and how it ended; see first.py."""

    code: str
    value: object
    error: BaseException | None


class Shell(InteractiveShell):
    """IPython as the daemon needs it."""

    wire: Wire | None = None
    ran: RanWithoutShell | None = None
    """What the next cell has come to already, so that it is not run again."""
    cell_count: int = 0
    failure: dict[str, Any] | None = None
    """What the cell ended with, when it failed."""

    def show(self, data: dict[str, Any], **rest: Any) -> None:
        """Say a result; while the parent warms up, to nobody."""
        if self.wire is not None:
            self.wire.show(data, **rest)

    async def run_ast_nodes(self, nodelist: Any, *rest: Any, **options: Any) -> bool:
        """Run a cell, or end as it has ended already. Say whether it failed."""
        if self.ran is None:
            failed: bool = await super().run_ast_nodes(nodelist, *rest, **options)
            return failed
        ran, self.ran = self.ran, None
        return self._end_as(ran, options["result"])

    def _end_as(self, ran: RanWithoutShell, result: Any) -> bool:
        """Report the end of a cell as run_code does; what it raised has been raised below this."""
        __tracebackhide__ = "__ipython_bottom__"
        try:
            if ran.error is not None:
                raise ran.error
            self.displayhook(ran.value)
        except BaseException as error:  # noqa: BLE001 - reported
            result.error_in_exec = error
            is_exit = isinstance(error, SystemExit)
            self.showtraceback(exception_only=is_exit, running_compiled_code=not is_exit)
            return True
        return False

    def system(self, cmd: str) -> None:
        """Run a program for ``!``, on the cell's own output; an interrupt ends the cell too."""
        flush_output()
        chosen = os.environ.get("SHELL", "")
        executable = chosen if os.access(chosen, os.X_OK) else None
        status = subprocess.call(self.var_expand(cmd, depth=1), shell=True, executable=executable)
        self.user_ns["_exit_code"] = status

    def _showtraceback(self, etype: type, evalue: BaseException, stb: list[str]) -> None:
        theirs = [part for part in stb if not part.startswith(_OUR_FRAME)]
        lines = [line for line in _lines(theirs) if _HIDDEN not in line]
        self.failure = {"ename": etype.__name__, "evalue": _text(evalue), "traceback": lines}

    def failure_of(self, error: BaseException) -> dict[str, Any]:
        """Describe an error that IPython only prints: a group, or a magic that does not exist."""
        frames = error.__traceback__.tb_next if error.__traceback__ else None  # without IPython's
        lines = _lines(traceback.format_exception(type(error), error, frames))
        return {"ename": type(error).__name__, "evalue": _text(error), "traceback": lines}

    def enable_gui(self, gui: Any = None) -> None:
        """Do nothing: there is no screen."""

    def ask_exit(self) -> None:
        """Refuse: a context ends when it is deleted."""
        raise SystemExit("a context ends when it is deleted")

    def init_display_formatter(self) -> None:
        """Show every form of a value, not only its text."""
        super().init_display_formatter()
        tell_charts(self.display_formatter)
        self.display_formatter.active_types = self.display_formatter.format_types


def _lines(parts: list[str]) -> list[str]:
    """Return the lines of a traceback; other ends of lines than line feeds are the code's own."""
    return [line for part in parts if part for line in part.removesuffix("\n").split("\n")]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the code's own __str__
        return "".join(traceback.format_exception_only(type(error), None)).strip()


def refuse_input(prompt: object = "") -> str:
    """Stand in for input(): a cell runs without anybody at a keyboard."""
    __tracebackhide__ = True
    raise StdinNotImplementedError(
        "input() is not possible in a code context; put the value into the code"
    )


def warmed(main: ModuleType | None = None) -> Shell:
    """Make a shell and run a few cells in it, so that the first cell of a context is fast.

    Its namespace is that of a module, which has nothing in it but what every module has.
    """
    os.environ.setdefault("MPLBACKEND", INLINE)
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "nocolor"
    # Beside this program, where the daemon removes also what a process killed midway left.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent.parent) as directory:
        shell = Shell.instance(
            config=config,
            ipython_dir=directory,
            user_module=main,
            displayhook_class=Values,
            display_pub_class=Displays,
        )
        shell.set_hook("show_in_pager", page.as_hook(page.display_page), 99)
        for cell in ("1 + 1", "import sys\ndel sys", "1 / 0", "'warm'"):
            shell.run_cell(cell)
    builtins.input = refuse_input
    warnings.filterwarnings("ignore", message="To exit: use")  # of SystemExit, which is sent anyway
    shell.reset(new_session=True)
    shell.execution_count = 1
    return shell


def preload(shell: Shell) -> None:
    """Import the modules that PRELOADED names."""
    for name in filter(None, os.environ.get(PRELOADED, "").split(",")):
        try:
            importlib.import_module(name.strip())
        except Exception as error:  # noqa: BLE001 - a broken library must not cost the language
            os.write(2, f"{PRELOADED}: {name}: {error}\n".encode())
    if "matplotlib" in sys.modules:  # otherwise its backend does this when it is imported
        shell.enable_matplotlib("inline")
