# SPDX-License-Identifier: Apache-2.0
"""What Python code sees and shows in a context."""

import base64
import io
import struct
import zlib
from pathlib import Path

import pytest

from tests.code.cells import Context, made, output, results
from tests.execd.events import next_of
from tests.harness.execd import Daemon
from tests.harness.wait import eventually


def test_state_stays_and_the_last_expression_is_the_result(python: Context) -> None:
    assert python.run("x = 20").error is None
    execution = python.run("x + 22")
    assert [event["type"] for event in execution.events] == [
        "init",
        "execution_count",
        "result",
        "execution_complete",
    ]
    assert execution.id == python.id
    assert execution.events[1]["execution_count"] == 2
    assert results(execution) == [{"text": "42"}]


def test_an_indented_cell_runs(python: Context) -> None:
    cell = """
        import sys
        print(sys.version_info.major)
        result = 2 + 2
        result
    """
    execution = python.run(cell)
    assert execution.stdout == ["3\n"]
    assert results(execution) == [{"text": "4"}]


def test_an_error_has_pythons_name_and_traceback(python: Context) -> None:
    error = python.failure("def f():\n    return missing\nf()")
    assert error["ename"] == "NameError"
    assert error["evalue"] == "name 'missing' is not defined"
    assert any("return missing" in line for line in error["traceback"])
    assert not any("\x1b" in line or "opensandbox_kernel" in line for line in error["traceback"])
    assert python.value("1") == "1"


def test_a_syntax_error_is_one(python: Context) -> None:
    error = python.failure("def f(:\n    pass")
    assert error["ename"] == "SyntaxError"
    assert any("def f(:" in line for line in error["traceback"])


def test_unicode_passes_through(python: Context) -> None:
    text = "grüße \U0001f600 \u2028 \x85"
    assert python.out(f"print({text!r})") == text + "\n"
    assert python.value(f"größe = {text!r}; größe") == repr(text)


def test_a_value_with_line_separators_is_one_event(python: Context) -> None:
    (shown,) = results(python.run("display({'text/html': 'a\\u2028b\\x85c'}, raw=True)"))
    assert shown["text/html"] == "a\u2028b\x85c"


def test_output_is_in_order_with_what_is_shown(python: Context) -> None:
    cell = "print('one')\ndisplay(1)\nprint('two')\ndisplay(2)\nprint('three')"
    assert output(python.run(cell)) == [
        ("stdout", "one\n"),
        ("result", "1"),
        ("stdout", "two\n"),
        ("result", "2"),
        ("stdout", "three\n"),
    ]


def test_output_of_programs_threads_and_descriptors_is_captured(python: Context) -> None:
    cell = """
import os, subprocess, sys, threading
print("printed")
subprocess.run(["sh", "-c", "echo program; echo oops >&2"])
thread = threading.Thread(target=lambda: print("thread"))
thread.start(); thread.join()
os.write(1, b"descriptor\\n")
!echo shell
"""
    execution = python.run(cell)
    assert "".join(execution.stdout) == "printed\nprogram\nthread\ndescriptor\nshell\n"
    assert "".join(execution.stderr) == "oops\n"


def test_a_line_without_an_end_comes_before_the_cell_ends(python: Context) -> None:
    with python.running("print('half', end='', flush=True)\nwhile True: pass") as events:
        assert next_of(events, "stdout")["text"] == "half"
        python.interrupt()
        assert next_of(events, "error")


def test_results_have_every_mime_type(python: Context) -> None:
    cell = """
class Rich:
    def __repr__(self): return "plain"
    def _repr_html_(self): return "<b>html</b>"
    def _repr_png_(self): return bytes([1, 2, 3])
    def _repr_json_(self): return {"rows": [1, None]}
    def _repr_mimebundle_(self, include=None, exclude=None): return {"application/x-own": {"a": 1}}
Rich()
"""
    (shown,) = results(python.run(cell))
    assert shown["text"] == "plain"
    assert shown["text/html"] == "<b>html</b>"
    assert base64.b64decode(shown["image/png"]) == bytes([1, 2, 3])
    assert shown["application/json"] == {"rows": [1, None]}
    assert shown["application/x-own"] == {"a": 1}


def test_a_display_can_be_updated(python: Context) -> None:
    execution = python.run("handle = display('one', display_id=True)\nhandle.update('two')")
    first, second = [event for event in execution.events if event["type"] == "result"]
    assert first["display_id"] == second["display_id"]
    assert "update" not in first
    assert second["update"] is True


def test_a_result_that_is_too_large_is_told_and_leaves_the_rest(python: Context) -> None:
    cell = """
class Large:
    def __repr__(self): return "small"
    def _repr_html_(self): return "x" * 5_000_000
Large()
"""
    execution = python.run(cell)
    assert results(execution) == [{"text": "small"}]
    assert "text/html" in "".join(execution.stderr)


def test_a_figure_is_shown_without_being_asked_for(python: Context) -> None:
    cell = (
        "import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 3), dpi=50)\nplt.plot([1, 3, 2]);"
    )
    shown = results(python.run(cell, timeout=100_000))
    figure = next(one for one in shown if "image/png" in one)
    width, height, colours = _decoded(base64.b64decode(figure["image/png"]))
    assert width > 100
    assert height > 100
    assert len(colours) > 2, "the picture is blank"


def _decoded(png: bytes) -> tuple[int, int, set[bytes]]:
    """Unpack a PNG with the standard library: its size and the distinct bytes of its pixels."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    stream, header, packed = io.BytesIO(png[8:]), b"", b""
    while head := stream.read(8):
        length, kind = struct.unpack(">I4s", head)
        body = stream.read(length)
        assert struct.unpack(">I", stream.read(4))[0] == zlib.crc32(kind + body)
        header = body if kind == b"IHDR" else header
        packed += body if kind == b"IDAT" else b""
    width, height = struct.unpack(">II", header[:8])
    pixels = zlib.decompress(packed)
    return width, height, {pixels[i : i + 1] for i in range(len(pixels))}


def test_figures_come_between_the_prints_around_them(python: Context) -> None:
    cell = """
import matplotlib.pyplot as plt
print("first"); plt.plot([1]); plt.show()
print("second"); plt.plot([2]); plt.show()
"""
    kinds = [event["type"] for event in python.run(cell).events]
    assert [kind for kind in kinds if kind in ("stdout", "result")] == [
        "stdout",
        "result",
        "stdout",
        "result",
    ]


def test_a_dataframe_is_a_table_of_html(python: Context) -> None:
    (shown,) = results(python.run("import pandas\npandas.DataFrame({'a': [1, 2]})"))
    assert "<table" in shown["text/html"]
    assert "a" in shown["text"]


def test_tasks_go_on_between_cells(python: Context) -> None:
    python.run(
        "import asyncio\nasync def later():\n    await asyncio.sleep(0.01)\n    return 'done'"
    )
    python.run("task = asyncio.create_task(later())")
    eventually(lambda: python.value("task.done()") == "True")
    assert python.value("await task") == "'done'"


def test_asyncio_run_works_in_a_cell(python: Context) -> None:
    cell = (
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nasyncio.run(f())"
    )
    assert python.value(cell) == "7"
    assert python.value("await f()") == "7"


def test_what_comes_between_two_cells_is_told_by_the_next(python: Context) -> None:
    cell = """
import threading, time
def tick():
    time.sleep(0.05); print("late"); flag.set()
flag = threading.Event()
threading.Thread(target=tick).start()
"""
    assert python.run(cell).stdout == []
    assert python.out("flag.wait()") == "late\n"


@pytest.mark.parametrize(
    "cell",
    [
        "print('up', flush=True)\nwhile True: pass",
        "print('up', flush=True)\nimport time; time.sleep(1000)",
        "print('up', flush=True)\nimport asyncio; await asyncio.sleep(1000)",
        "print('up', flush=True)\nimport asyncio; asyncio.run(asyncio.sleep(1000))",
        "print('up', flush=True)\nimport subprocess; subprocess.run(['sleep', '1000'])",
        "print('up', flush=True)\n!sleep 1000",
    ],
)
def test_an_interrupt_ends_the_cell_and_keeps_the_state(python: Context, cell: str) -> None:
    python.run("x = 1")
    with python.running(cell) as events:
        next_of(events, "stdout")
        assert python.interrupt().status_code == 200
        error = next_of(events, "error")["error"]
    assert error["ename"] == "KeyboardInterrupt"
    assert python.value("x") == "1"


def test_a_timeout_ends_the_cell_and_keeps_the_state(python: Context) -> None:
    python.run("x = 1")
    error = python.failure("while True: pass", timeout=200)
    assert error["ename"] == "TimeoutError"
    assert "200ms" in error["evalue"]
    assert python.value("x") == "1"


def test_input_is_refused(python: Context) -> None:
    error = python.failure("input('name? ')")
    assert error["ename"] == "StdinNotImplementedError"
    assert python.value("import sys; sys.stdin.read()") == "''"


def test_a_hundred_megabytes_of_output_arrive(python: Context) -> None:
    line = "x" * 99
    count, cell = 0, f"for i in range(1_000_000): print({line!r})"
    with python.running(cell) as events:
        for event in events:
            if event["type"] == "stdout":
                count += len(event["text"])
                assert event["text"].endswith("\n")
            last = event["type"]
    assert (count, last) == (100_000_000, "execution_complete")
    assert python.value("1 + 1") == "2"


def test_a_long_line_is_not_broken_by_the_pipe(python: Context) -> None:
    assert python.run("print('y' * 500_000)").stdout == ["y" * 500_000 + "\n"]


def test_an_interpreter_that_ends_itself_is_told_and_replaced(daemon: Daemon) -> None:
    one, other = made(daemon.client, "python"), made(daemon.client, "python")
    other.run("x = 1")
    execution = one.run("print('before', flush=True)\nimport os; os._exit(3)")
    assert execution.stdout == ["before\n"]
    assert execution.error is not None
    assert execution.error["ename"] == "InterpreterDied"
    assert "exit status 3" in execution.error["evalue"]
    assert one.value("1 + 1") == "2"
    assert other.value("x") == "1"


def test_an_interpreter_that_ends_between_cells_is_told_by_the_next(
    daemon: Daemon, python: Context
) -> None:
    gate = f"{daemon.workdir}/gate-{python.id}"
    cell = f"""
import os, threading, time
def end():
    while not os.path.exists({gate!r}): time.sleep(0.01)
    os._exit(1)
threading.Thread(target=end).start()
os.getpid()
"""
    pid = python.value(cell)
    daemon.outside_path(gate).touch()
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    execution = python.run("1 + 1")
    assert "had ended" in "".join(execution.stderr)
    assert results(execution) == [{"text": "2"}]


def test_exit_is_an_error_and_keeps_the_state(python: Context) -> None:
    python.run("x = 1\nimport sys")
    assert python.failure("sys.exit(3)")["ename"] == "SystemExit"
    assert python.failure("exit()")["ename"] == "SystemExit"
    assert python.value("x") == "1"


def test_a_thread_left_printing_harms_nobody(daemon: Daemon) -> None:
    one, other = made(daemon.client, "python"), made(daemon.client, "python")
    cell = """
import threading
def spam():
    while True: print("spam" * 100)
threading.Thread(target=spam, daemon=True).start()
"""
    assert one.run(cell).error is None
    assert other.value("1 + 1") == "2"
    one.delete()
    assert other.value("2 + 2") == "4"


def test_a_forked_process_does_not_speak_for_the_cell(python: Context) -> None:
    cell = (
        "import os\nif os.fork() == 0:\n    print('child')\nelse:\n    os.wait(); print('parent')"
    )
    assert python.out(cell) == "child\nparent\n"
    assert python.value("1") == "1"


def test_multiprocessing_works(python: Context) -> None:
    cell = """
import multiprocessing
def square(x): return x * x
with multiprocessing.get_context("fork").Pool(2) as pool:
    total = sum(pool.map(square, range(4)))
total
"""
    assert python.value(cell) == "14"


def test_each_context_has_its_own_randomness(daemon: Daemon) -> None:
    cell = "import random, numpy; print(random.random(), numpy.random.rand())"
    drawn = [made(daemon.client, "python").out(cell).split() for _ in range(2)]
    assert drawn[0][0] != drawn[1][0]
    assert drawn[0][1] != drawn[1][1]
