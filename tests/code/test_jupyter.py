# SPDX-License-Identifier: Apache-2.0
"""Any other kernel of an image, over Jupyter's own protocol; ipykernel stands for all of them."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.code.cells import Context, made, output, results
from tests.code.interpreters import search_path, surroundings
from tests.execd.events import assert_error, next_of
from tests.harness.execd import OWN, Daemon, run_daemon

MODES = ["signal", "message"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Run one daemon for the module."""
    with run_daemon_with_kernels(tmp_path_factory) as running:
        yield running


@contextmanager
def run_daemon_with_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Run a daemon whose image has kernels of made-up languages."""
    share = tmp_path_factory.mktemp("jupyter")
    python = search_path().split(":")[0] + "/python"
    for mode in MODES:
        _install(share, f"by-{mode}", [python, "-m", "ipykernel", "-f", "{connection_file}"], mode)
    _install(share, "broken", [sys.executable, "-c", "raise SystemExit(5)"], "signal")
    _install(share, "absent", ["no-such-program", "{connection_file}"], "signal")
    environment = {**surroundings(), "JUPYTER_PATH": str(share)}
    with run_daemon(OWN, environment=environment) as running:
        yield running


def _install(share: Path, name: str, argv: list[str], mode: str) -> None:
    home = share / "kernels" / name
    home.mkdir(parents=True)
    spec = {"argv": argv, "language": f"language-{name}", "display_name": name}
    (home / "kernel.json").write_text(json.dumps({**spec, "interrupt_mode": mode}))


@pytest.fixture(scope="module", params=MODES)
def kernel(daemon: Daemon, request: pytest.FixtureRequest) -> Context:
    """Make a context of a kernel that is interrupted in this way."""
    return made(daemon.client, f"by-{request.param}")


def test_state_stays_and_the_last_value_is_told(kernel: Context) -> None:
    assert kernel.run("x = 20").error is None
    execution = kernel.run("x + 22")
    assert results(execution) == [{"text": "42"}]
    assert [event["type"] for event in execution.events][-3:] == [
        "execution_count",
        "result",
        "execution_complete",
    ]


def test_output_and_displays_come_in_order(kernel: Context) -> None:
    execution = kernel.run("print('a'); display(1); print('b')")
    assert output(execution) == [("stdout", "a\n"), ("result", "1"), ("stdout", "b\n")]


def test_a_display_can_be_updated(kernel: Context) -> None:
    execution = kernel.run("handle = display('one', display_id=True)\nhandle.update('two')")
    first, second = [event for event in execution.events if event["type"] == "result"]
    assert first["display_id"] == second["display_id"]
    assert second["update"] is True


def test_an_error_has_its_name(kernel: Context) -> None:
    assert kernel.failure("missing")["ename"] == "NameError"
    assert kernel.failure("input()")["ename"] == "StdinNotImplementedError"


def test_a_large_result_arrives(kernel: Context) -> None:
    assert kernel.value("'x' * 1_000_000") == repr("x" * 1_000_000)


def test_an_interrupt_ends_a_cell_and_keeps_the_state(kernel: Context) -> None:
    kernel.run("kept = 1")
    with kernel.running("print('up', flush=True)\nimport time; time.sleep(1000)") as events:
        next_of(events, "stdout")
        assert kernel.interrupt().status_code == 200
        assert next_of(events, "error")["error"]["ename"] == "KeyboardInterrupt"
    assert kernel.value("kept") == "1"


def test_an_interrupt_that_comes_early_ends_a_cell_and_keeps_the_state(kernel: Context) -> None:
    kernel.run("kept = 1")
    for _ in range(3):
        with kernel.running("import time; time.sleep(1000)") as events:
            next_of(events, "init")
            assert kernel.interrupt().status_code == 200
            error = next_of(events, "error")["error"]
        assert (error["ename"], error["evalue"]) == ("KeyboardInterrupt", "")
    assert kernel.value("kept") == "1"


def test_an_interrupt_that_costs_the_kernel_its_reply_keeps_the_state(kernel: Context) -> None:
    kernel.run("kept = 1")
    kernel.run("""
def hit(*_):
    del own.finish_metadata
    raise KeyboardInterrupt
own = get_ipython().kernel
""")
    with kernel.running(
        "own.finish_metadata = hit\nprint('up', flush=True)\nwhile True: pass"
    ) as events:
        next_of(events, "stdout")
        assert kernel.interrupt().status_code == 200
        error = next_of(events, "error")["error"]
    assert (error["ename"], error["evalue"]) == ("KeyboardInterrupt", "")
    assert kernel.value("kept") == "1"


def test_a_result_that_is_too_large_to_keep_is_left_out_and_the_kernel_lives(
    kernel: Context,
) -> None:
    kernel.run("kept = 1")
    execution = kernel.run("display({'text/html': 'x' * 70_000_000}, raw=True)", timeout=100_000)
    assert execution.error is None
    assert "left out" in results(execution)[0]["text"]
    error = kernel.failure("raise ValueError('x' * 70_000_000)", timeout=100_000)
    assert error["ename"] == "ErrorTooLarge"
    assert kernel.value("kept") == "1"


def test_output_of_any_size_arrives_in_events_that_fit(kernel: Context) -> None:
    with kernel.running("print('y' * 10_000_000)", timeout=100_000) as events:
        texts = [event["text"] for event in events if event["type"] == "stdout"]
    assert "".join(texts) == "y" * 10_000_000 + "\n"
    assert max(map(len, texts)) < 4 << 20


def test_a_kernel_is_found_by_its_language_and_one_that_ends_is_replaced(daemon: Daemon) -> None:
    context = made(daemon.client, "language-by-signal")
    assert context.failure("import os; os._exit(3)")["ename"] == "InterpreterDied"
    assert context.value("1 + 1") == "2"
    context.delete()


def test_a_kernel_that_cannot_start_is_an_error(daemon: Daemon) -> None:
    broken = daemon.client.post("/code/context", json={"language": "broken"})
    assert_error(broken, 500, "RUNTIME_ERROR")
    assert "exit status 5" in broken.json()["message"]
    absent = daemon.client.post("/code/context", json={"language": "absent"})
    assert_error(absent, 501, "NOT_SUPPORTED")
    assert "no-such-program" in absent.json()["message"]
