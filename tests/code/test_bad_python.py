# SPDX-License-Identifier: Apache-2.0
"""Python code that breaks its own interpreter, or almost."""

from pathlib import Path

import pytest

from tests.code.cells import Context, made, results
from tests.execd.events import next_of
from tests.harness.execd import Daemon
from tests.harness.wait import eventually


def test_a_group_of_exceptions_is_an_error(python: Context) -> None:
    error = python.failure("raise ExceptionGroup('both', [ValueError(1), KeyError(2)])")
    assert error["ename"] == "ExceptionGroup"
    assert error["evalue"] == "both (2 sub-exceptions)"
    assert any("KeyError: 2" in line for line in error["traceback"])


@pytest.mark.parametrize("cell", ["%no_such_magic", "%%no_such_magic\nx"])
def test_a_magic_that_does_not_exist_is_an_error(python: Context, cell: str) -> None:
    error = python.failure(cell)
    assert error["ename"] == "UsageError"
    assert "not found" in error["evalue"]


@pytest.mark.parametrize(
    "cell",
    [
        "import json; json.dumps = json.loads = None",
        "import os; os.getpid = lambda: 1; os.read = None",
        "import sys; sys.stdout = sys.stderr = None",
        "import asyncio; asyncio.get_running_loop().stop()",
        "import asyncio\nfor task in asyncio.all_tasks(): task.cancel()",
        "import nest_asyncio2; nest_asyncio2.apply()",
        "import asyncio; asyncio.set_event_loop(None)",
        "import os, tempfile\nhere = tempfile.mkdtemp(); os.chdir(here); os.rmdir(here)",
    ],
)
def test_code_may_replace_what_its_interpreter_uses(python: Context, cell: str) -> None:
    python.run("kept = 42")
    python.run(cell)
    assert python.value("kept") == "42"


@pytest.mark.parametrize("handler", ["SIG_IGN", "SIG_DFL"])
def test_a_cell_can_be_interrupted_after_another_took_the_signal(
    python: Context, handler: str
) -> None:
    python.run(f"kept = 42\nimport signal; signal.signal(signal.SIGINT, signal.{handler})")
    with python.running("print('up', flush=True)\nwhile True: pass") as events:
        next_of(events, "stdout")
        python.interrupt()
        assert next_of(events, "error")["error"]["ename"] == "KeyboardInterrupt"
    assert python.value("kept") == "42"


def test_a_value_that_takes_for_ever_to_tell_can_be_interrupted(python: Context) -> None:
    cell = """
class Endless:
    def __str__(self):
        print("up", flush=True)
        while True: pass
kept = 42
display({"application/json": Endless()}, raw=True)
"""
    with python.running(cell) as events:
        next_of(events, "stdout")
        python.interrupt()
        assert next_of(events, "error")["error"]["ename"] == "KeyboardInterrupt"
    assert python.value("kept") == "42"


def test_words_on_the_interpreters_own_descriptor_end_it_and_are_named(daemon: Daemon) -> None:
    one, other = made(daemon.client, "python"), made(daemon.client, "python")
    other.run("x = 1")
    cell = """
import os, stat
for number in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode): os.write(number, b"not JSON\\n")
    except OSError: pass
"""
    error = one.failure(cell)
    assert error["ename"] == "InterpreterDied"
    assert "wrote on the interpreter's connection" in error["evalue"]
    assert one.value("1 + 1") == "2"
    assert other.value("x") == "1"


def test_programs_do_not_inherit_the_interpreters_descriptors(python: Context) -> None:
    cell = "import os; os.system('ls -l /proc/self/fd')"
    assert "socket:" not in python.out(cell)


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_what_an_interpreter_started_ends_with_it(python: Context, end: str) -> None:
    pid = python.value("import os, subprocess; subprocess.Popen(['sleep', '1000']).pid")
    assert python.failure(end)["ename"] == "InterpreterDied"
    eventually(lambda: not _lives(pid))


def _lives(pid: str) -> bool:
    """Say whether a process runs that may not be reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("cell", "how"),
    [
        ("import ctypes; ctypes.string_at(0)", "segmentation fault"),
        ("import os; os.kill(os.getpid(), 9)", "killed"),
        ("import os; os.closerange(3, 200)", "exit status 1"),
        ("import os; os.execv('/bin/true', ['true'])", "exit status 0"),
    ],
)
def test_an_interpreter_that_crashes_says_how(daemon: Daemon, cell: str, how: str) -> None:
    one, other = made(daemon.client, "python"), made(daemon.client, "python")
    other.run("x = 1")
    error = one.failure(cell)
    assert error["ename"] == "InterpreterDied"
    assert how in error["evalue"]
    assert one.value("1 + 1") == "2"
    assert other.value("x") == "1"


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("class A:\n    def __repr__(self): raise ValueError('no')\nA()", "ValueError"),
        ("class A:\n    def __repr__(self): return 1\nA()", "TypeError"),
        ("10 ** 5000", "ValueError"),
        ("def f(): f()\nf()", "RecursionError"),
        ("1 \0 + 1", "SyntaxError"),
    ],
)
def test_a_value_that_cannot_be_shown_is_an_error(python: Context, cell: str, name: str) -> None:
    assert python.failure(cell)["ename"] == name
    assert python.value("6 * 7") == "42"


def test_surrogates_and_bytes_that_are_no_text_are_told_as_such(python: Context) -> None:
    assert python.out(r"print('\ud800')") == "\\ud800\n"
    assert python.out(r"import os; os.write(1, b'\xff\n');") == "\ufffd\n"


def test_a_cell_of_ten_megabytes_runs(python: Context) -> None:
    assert python.value(f"len('{'y' * 10_000_000}')") == "10000000"


def test_a_thousand_cells_and_fifty_contexts_leave_nothing(daemon: Daemon) -> None:
    python = made(daemon.client, "python")
    before = _descriptors(daemon)
    for number in range(1000):
        assert results(python.run(f"{number}")) == [{"text": str(number)}]
    contexts = [made(daemon.client, "python") for _ in range(50)]
    assert {context.value("6 * 7") for context in contexts} == {"42"}
    pids = [context.value("import os; os.getpid()") for context in contexts]
    for context in contexts:
        context.delete()
    assert not any(_lives(pid) for pid in pids)
    eventually(lambda: _descriptors(daemon) <= before)
    python.delete()


def _descriptors(daemon: Daemon) -> int:
    return sum(1 for _ in Path(f"/proc/{daemon.pid}/fd").iterdir())
