# SPDX-License-Identifier: Apache-2.0
"""The first Python context of a sandbox: begins at once and becomes IPython when a cell needs it.

Importing IPython takes many times as long as starting Python, and plain cells (see plain.py) can do
without. So this imports hardly anything. Further contexts are forked from a parent that has
imported IPython; see kernel/python.go.
"""

from __future__ import annotations

import _json
import _signal
import os
import sys
from _frozen_importlib_external import PathFinder

try:
    from _sha1 import sha1  # quicker than hashlib, where there is one
except ImportError:
    from hashlib import sha1

DAEMON, ACKNOWLEDGEMENTS = 3, 4
MISSING_STATUS = 3
HERE = __file__.rpartition("/")[0]
READ_SIZE = 1 << 16
MAX_CELLS = 100
"""Bounds what IPython has to be told when it comes."""
INLINE = "module://matplotlib_inline.backend_inline"


def import_ours(name: str) -> object:
    """Import a module of ours, where nobody else finds it, and leave no file behind."""
    is_written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, HERE)
    try:
        return __import__(name, fromlist=["*"])
    finally:
        sys.path.remove(HERE)
        sys.dont_write_bytecode = is_written


class Cell:
    """A cell that ran before there was IPython: what it was, and how it ended."""

    def __init__(self, code: str, count: int) -> None:
        """Remember what was asked for, under the names that IPython has for it."""
        self.code = code
        self.count = count
        self.source: str = plain.transformed(code)
        self.name = f"<ipython-input-{count}-{sha1(self.source.encode()).hexdigest()[:12]}>"
        self.value: object = None
        self.error: BaseException | None = None

    @property
    def lines(self) -> tuple[int, None, list[str], str]:
        """The source, as linecache holds it for whoever shows a line of it."""
        lines = [line + "\n" for line in self.source.splitlines()]
        return len(self.source), None, lines, self.name


class Imports:
    """Lets code import as it could in IPython, which has imported much before a cell runs.

    No file beside the code stands in for a module of the standard library, and linecache, which is
    slow to import, knows the cells whoever imports it.
    """

    def __init__(self) -> None:
        """Watch imports."""
        self._path = [*sys.path]
        self._lines: dict[str, object] = {}
        sys.meta_path.insert(0, self)

    def remember(self, cell: Cell) -> None:
        """Have one more cell for linecache."""
        self._lines[cell.name] = cell.lines
        if "linecache" in sys.modules:
            sys.modules["linecache"].cache[cell.name] = cell.lines

    def end(self) -> None:
        """Leave imports alone."""
        sys.meta_path.remove(self)

    def find_spec(self, name: str, path: object, target: object = None) -> object:
        """Find a module of the standard library where it was before there was any code."""
        if name not in sys.stdlib_module_names:
            return None
        spec = PathFinder.find_spec(name, self._path)
        if spec is not None and name == "linecache":
            plain_exec = spec.loader.exec_module

            def exec_module(module: object) -> None:
                plain_exec(module)
                module.cache.update(self._lines)

            spec.loader.exec_module = exec_module
        return spec


class First:
    """Runs plain cells; the first that is not plain is left to IPython, with all before it."""

    def __init__(self) -> None:
        """Begin with nothing in the namespace."""
        self.main = type(sys)("__main__")
        self.main.__builtins__ = sys.modules["builtins"]
        self.own_names = dict(self.main.__dict__)
        self.cells: list[Cell] = []
        """All that have run, the last perhaps without being answered."""
        self.is_last_answered = True
        self.rest = b""
        """What the daemon has said and nobody has read."""
        self.path: list[str] = []
        self.environ: dict[str, str] = {}
        """With what this began, which code may have changed since."""
        self.imports: Imports | None = None
        self.is_interrupted = False
        """An interrupt came before the cell it is meant for began, or is to be forgotten."""
        self._is_running = False

    def serve(self) -> None:
        """Run cells as long as they are plain."""
        _say('{"type":"ready"}')
        self._settle(_read(self._line()))
        _signal.signal(_signal.SIGINT, self._interrupted)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])
        while self.is_last_answered:
            line = self._line()
            order = _read(line)
            if order["type"] == "forget":
                self.is_interrupted = False
                _say('{"type":"forgotten"}')
                continue
            os.environ.update(order.get("env", {}))
            if not self._has_run(order["code"]):
                self.rest = line + b"\n" + self.rest
                return
            self.is_interrupted = False
            if self.is_last_answered:
                _flush_output()
                _say('{"type":"done"}')

    def _settle(self, order: dict[str, object]) -> None:
        _set_environ(order.get("env", {}))
        os.environ.setdefault("MPLBACKEND", INLINE)
        if order.get("dir"):
            os.chdir(order["dir"])
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self.path, self.environ, self.imports = [*sys.path], dict(os.environ), Imports()
        sys.path.insert(0, "")
        sys.argv = [""]
        sys.modules["__main__"] = self.main

    def _line(self) -> bytes:
        while b"\n" not in self.rest:
            piece = os.read(DAEMON, READ_SIZE)
            if not piece:
                os._exit(0)
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def _has_run(self, code: str) -> bool:
        """Run a cell and say its value, or how it ended, if that can be said here."""
        if not code or code.isspace():
            return True
        cell = Cell(code, len(self.cells) + 1)
        steps = plain.steps(cell.source, cell.name, self.main.__dict__)
        if steps is None or cell.count > MAX_CELLS:
            return False
        self.imports.remember(cell)
        self.cells.append(cell)
        self._run(cell, steps)
        shown = plain.text(cell.value)
        self.is_last_answered = cell.error is None and shown is not None
        if self.is_last_answered and cell.value is not None:
            _flush_output()
            data = f'{{"text/plain":{_json.encode_basestring_ascii(shown)}}}'
            _say(f'{{"type":"result","data":{data},"count":{cell.count}}}')
            os.read(ACKNOWLEDGEMENTS, 1)
        return True

    def _run(self, cell: Cell, steps: list[object]) -> None:
        try:
            try:
                self._is_running = True
                if self.is_interrupted:
                    raise KeyboardInterrupt
                for step in steps:
                    cell.value = eval(step, self.main.__dict__)
            finally:
                self._is_running = False
        except BaseException as error:  # noqa: BLE001 - reported by IPython
            self._is_running = False
            cell.error = error.with_traceback(error.__traceback__.tb_next)

    def _interrupted(self, number: int, frame: object) -> None:
        __tracebackhide__ = True
        if self._is_running:
            raise KeyboardInterrupt
        self.is_interrupted = True


class _Reading:
    """How json reads; it is slow to import, and what it is made of is not."""

    strict = False
    object_hook = object_pairs_hook = None
    parse_int, parse_float, parse_constant = int, float, float
    memo = None


def _read(line: bytes) -> dict[str, object]:
    order, _ = _json.make_scanner(_Reading)(line.decode(), 0)
    return order


def _say(line: str) -> None:
    left = line.encode() + b"\n"
    while left:
        left = left[os.write(DAEMON, left) :]


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - the code closed it: nothing to flush
            continue


def become_ipython(first: First) -> None:
    """Go on as a context like any other, made in the surroundings that this one began with."""
    if first.is_last_answered:  # then an interrupt is for a cell that has not begun
        _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGINT])
        if first.is_interrupted:
            os.kill(os.getpid(), _signal.SIGINT)
    first.imports.end()
    path, environ, here = sys.path, dict(os.environ), os.open(".", os.O_PATH)
    sys.path = first.path
    _set_environ(first.environ)
    os.chdir("/")
    succession = import_ours("opensandbox_kernel.succession")
    shell = succession.shell_of(first)
    os.fchdir(here)
    os.close(here)
    _set_environ(environ)
    sys.path = path
    succession.take_over(shell, first, DAEMON, ACKNOWLEDGEMENTS)


def _set_environ(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def is_there(name: str) -> bool:
    """Say whether a module could be imported."""
    return any(finder.find_spec(name, None) for finder in sys.meta_path)


if __name__ == "__main__":
    _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGINT])  # until it can be answered
    sys.path[0:1] = []  # this directory, put there by the interpreter, is nobody else's business
    if not is_there("IPython"):
        sys.exit(MISSING_STATUS)
    for descriptor in (DAEMON, ACKNOWLEDGEMENTS):
        os.set_inheritable(descriptor, False)
    plain = import_ours("plain")
    del sys.modules["plain"]  # a name that code may want
    first = First()
    first.serve()
    become_ipython(first)
