# SPDX-License-Identifier: Apache-2.0
"""Contexts as such: making, listing, deleting, waiting for each other."""

import sys
import threading
from pathlib import Path

import pytest

from tests.code.cells import Context, made, results
from tests.execd.events import assert_error, folded, next_of
from tests.harness.execd import OWN, Daemon, run_daemon
from tests.harness.wait import eventually


def test_contexts_are_made_listed_found_and_deleted(daemon: Daemon) -> None:
    one, other = made(daemon.client, "python"), made(daemon.client, "bash")
    listed = daemon.client.get("/code/contexts").json()
    assert {"id": one.id, "language": "python"} in listed
    assert {"id": other.id, "language": "bash"} in listed
    only = daemon.client.get("/code/contexts", params={"language": "bash"}).json()
    assert {entry["language"] for entry in only} == {"bash"}
    assert daemon.client.get(f"/code/contexts/{one.id}").json()["id"] == one.id
    one.delete()
    assert_error(daemon.client.get(f"/code/contexts/{one.id}"), 404, "CONTEXT_NOT_FOUND")
    assert_error(daemon.client.delete(f"/code/contexts/{one.id}"), 404, "CONTEXT_NOT_FOUND")
    assert daemon.client.delete("/code/contexts", params={"language": "bash"}).status_code == 200
    assert daemon.client.get("/code/contexts", params={"language": "bash"}).json() == []


def test_deleting_all_contexts_needs_a_language(daemon: Daemon) -> None:
    assert_error(daemon.client.delete("/code/contexts"), 400, "MISSING_QUERY")


def test_code_without_an_id_runs_in_one_default_context_of_its_language(daemon: Daemon) -> None:
    def run(code: str) -> str:
        body = {"code": code, "context": {"language": "python"}}
        execution = folded(daemon.client.post("/code", json=body))
        return str(results(execution)[0]["text"]) if results(execution) else execution.id

    identifier = run("kept = 41")
    assert run("kept + 1") == "42"
    assert identifier == run("")


def test_code_without_a_language_is_a_shell_command(daemon: Daemon) -> None:
    execution = folded(daemon.client.post("/code", json={"code": "echo hello; exit 3"}))
    assert execution.stdout == ["hello"]
    assert execution.exit_code == 3


def test_an_unknown_context_is_an_error(daemon: Daemon) -> None:
    answer = daemon.client.post("/code", json={"code": "1", "context": {"id": "nobody"}})
    assert_error(answer, 500, "RUNTIME_ERROR")


@pytest.mark.parametrize("language", ["sql", "klingon"])
def test_a_language_without_a_kernel_is_told_so(daemon: Daemon, language: str) -> None:
    answer = daemon.client.post("/code", json={"code": "1", "context": {"language": language}})
    assert_error(answer, 501, "NOT_SUPPORTED")


def test_an_image_without_the_kernel_says_what_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.base_prefix}/bin/python3 -S "$@"\n')
    bare.chmod(0o755)
    with run_daemon(OWN, environment={"PATH": str(tmp_path)}) as daemon:
        answer = daemon.client.post("/code/context", json={"language": "python"})
        assert_error(answer, 501, "NOT_SUPPORTED")
        assert "pip install ipython" in answer.json()["message"]


@pytest.mark.parametrize(
    ("language", "needed"),
    [("javascript", "node"), ("typescript", "node"), ("java", "JDK"), ("go", "gcc")],
)
def test_a_language_that_an_image_lacks_is_told_with_what_it_needs(
    tmp_path: Path, language: str, needed: str
) -> None:
    with run_daemon(OWN, environment={"PATH": str(tmp_path)}) as daemon:
        answer = daemon.client.post("/code/context", json={"language": language})
        assert_error(answer, 501, "NOT_SUPPORTED")
        assert needed in answer.json()["message"]
        assert daemon.client.get("/code/contexts").json() == []


def test_the_directory_of_a_context_is_made_and_its_variables_are_its_own(daemon: Daemon) -> None:
    wanted = f"{daemon.workdir}/made/for/it"
    one = made(daemon.client, "python", cwd=wanted, envs={"GREETING": "hi"})
    other = made(daemon.client, "python")
    show = "import os; os.getcwd(), os.environ.get('GREETING')"
    assert one.value(show) == f"('{wanted}', 'hi')"
    assert other.value(show) == f"('{daemon.workdir}', None)"


def test_variables_set_for_all_commands_reach_a_living_context(python: Context) -> None:
    assert python.value("import os; os.environ.get('LATE', 'none')") == "'none'"
    python.client.post("/command", json={"command": 'echo LATE=now >>"$EXECD_ENVS"'})
    assert python.value("os.environ['LATE']") == "'now'"


def test_a_second_run_waits_for_the_first(daemon: Daemon, python: Context) -> None:
    gate = f"{daemon.workdir}/gate-{python.id}"
    outcomes: list[str] = []
    with python.running(
        f"import os, time\nwhile not os.path.exists({gate!r}): time.sleep(0.01)\nx = 1"
    ):
        second = threading.Thread(target=lambda: outcomes.append(python.value("x + 1")))
        second.start()
        daemon.outside_path(gate).touch()
        second.join(30)
    assert outcomes == ["2"]


def test_contexts_run_in_parallel(daemon: Daemon) -> None:
    one, other = made(daemon.client, "python"), made(daemon.client, "python")
    gate = f"{daemon.workdir}/gate-{one.id}"
    wait = f"import os, time\nwhile not os.path.exists({gate!r}): time.sleep(0.01)\n'over'"
    with one.running(wait) as events:
        other.run(f"open({gate!r}, 'w').close()")
        assert next_of(events, "result")["results"]["text"] == "'over'"


def test_deleting_a_context_ends_its_run_and_nothing_else(daemon: Daemon) -> None:
    one, other = made(daemon.client, "python"), made(daemon.client, "python")
    other.run("x = 1")
    with one.running("print('up')\nwhile True: pass") as events:
        next_of(events, "stdout")
        one.delete()
        assert next_of(events, "error")["error"]["ename"] == "ContextDeleted"
    assert other.value("x") == "1"


def test_interrupting_what_does_not_run_is_an_error(python: Context) -> None:
    assert_error(python.interrupt(), 500, "RUNTIME_ERROR")
    assert_error(python.client.delete("/code"), 400, "MISSING_QUERY")


def test_a_run_goes_on_without_its_client(daemon: Daemon, python: Context) -> None:
    flag = daemon.outside_path(f"{daemon.workdir}/flag-{python.id}")
    code = (
        f"print('up', flush=True)\nimport time; time.sleep(0.2); open({str(flag)!r}, 'w').close()"
    )
    with python.running(code) as events:
        next_of(events, "stdout")
    eventually(flag.exists)
