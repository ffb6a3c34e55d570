# SPDX-License-Identifier: Apache-2.0
"""How a context goes on in IPython that began without it; see first.py."""

from __future__ import annotations

import socket
from types import ModuleType
from typing import NoReturn, Protocol

from .context import Cells, Orders
from .shell import RanWithoutShell, Shell, preload, warmed
from .wire import Wire


class Predecessor(Protocol):
    """What has run until now."""

    main: ModuleType
    own_names: dict[str, object]
    cells: list[RanWithoutShell]
    is_last_answered: bool
    rest: bytes


def shell_of(first: Predecessor) -> Shell:
    """Make a shell that has the names of all cells until now."""
    namespace = first.main.__dict__
    own = first.own_names
    theirs = {
        name: value
        for name, value in namespace.items()
        if name not in own or value is not own[name]
    }
    for name in theirs:
        del namespace[name]  # warming up would meet them
    shell = warmed(first.main)
    preload(shell)
    namespace.update(theirs)
    return shell


def take_over(shell: Shell, first: Predecessor, connection: int, acknowledgements: int) -> NoReturn:
    """Tell IPython of the cells until now, then run those that come. Never returns."""
    daemon = socket.socket(fileno=connection)
    orders, wire = Orders(daemon, first.rest), Wire(daemon, acknowledgements)
    answered, unanswered = first.cells, None
    if not first.is_last_answered:
        answered, unanswered = first.cells[:-1], first.cells[-1]
    Cells(shell, orders, wire).serve(answered, unanswered)
