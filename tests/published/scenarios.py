# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The types are those of another package of the same name.
"""What a user of the published client does. Runs in the client's own virtual environment.

    python scenarios.py DOMAIN WORKDIR [IMAGE [KEY]]

Every function named scenario_… gets a sandbox and an empty directory. The outcome of each is
printed as one line of JSON: its name, and what went wrong or null.
"""

import asyncio
import json
import logging
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta

from opensandbox import Sandbox, SandboxSync
from opensandbox.config import ConnectionConfig
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.filesystem import (
    ContentReplaceEntry,
    DirectoryListEntry,
    MoveEntry,
    SearchEntry,
    SetPermissionEntry,
    WriteEntry,
)
from tests.harness.wait import eventually

IMAGE = sys.argv[3] if len(sys.argv) > 3 else "any"
KEY = sys.argv[4] if len(sys.argv) > 4 else "key"


def assert_api_error(call: Callable[[], object], *statuses: int) -> None:
    try:
        call()
    except SandboxApiException as error:
        is_expected = error.status_code in statuses
    else:
        is_expected = False
    assert is_expected


def texts(messages: list) -> list[str]:  # type: ignore[type-arg]
    return [message.text for message in messages]


# --- commands ---------------------------------------------------------------------------------


def scenario_run_a_command(sandbox: SandboxSync, work: str) -> None:
    execution = sandbox.commands.run("echo hello; echo oops >&2")
    assert texts(execution.logs.stdout) == ["hello"]
    assert texts(execution.logs.stderr) == ["oops"]
    assert execution.exit_code == 0
    assert execution.complete is not None
    assert execution.error is None
    assert execution.id


def scenario_handlers_hear_everything_once(sandbox: SandboxSync, work: str) -> None:
    heard: list[str] = []
    handlers = ExecutionHandlersSync(
        on_init=lambda event: heard.append("init"),
        on_stdout=lambda event: heard.append(event.text),
        on_execution_complete=lambda event: heard.append("complete"),
    )
    sandbox.commands.run("echo one; echo two", handlers=handlers)
    assert heard == ["init", "one", "two", "complete"], heard


def scenario_a_failing_command(sandbox: SandboxSync, work: str) -> None:
    execution = sandbox.commands.run("exit 42")
    assert execution.exit_code == 42
    assert execution.complete is None
    assert execution.error.name == "CommandExecError"
    assert execution.error.value == "42"


def scenario_an_argument_list(sandbox: SandboxSync, work: str) -> None:
    execution = sandbox.commands.run(["echo", "$HOME", "a  b"])
    assert execution.text == "$HOME a  b"


def scenario_directory_and_environment(sandbox: SandboxSync, work: str) -> None:
    options = RunCommandOpts(working_directory=work, envs={"GREETING": "hi there"})
    execution = sandbox.commands.run("pwd; echo $GREETING", opts=options)
    assert execution.text == f"{work}\nhi there"


def scenario_a_timeout(sandbox: SandboxSync, work: str) -> None:
    options = RunCommandOpts(timeout=timedelta(milliseconds=300))
    execution = sandbox.commands.run("echo up; sleep 1000", opts=options)
    assert texts(execution.logs.stdout) == ["up"]
    assert execution.error is not None
    assert execution.complete is None


def scenario_background_status_and_logs(sandbox: SandboxSync, work: str) -> None:
    options = RunCommandOpts(background=True, working_directory=work)
    text = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second; exit 3"
    execution = sandbox.commands.run(text, opts=options)
    assert execution.exit_code is None
    status = sandbox.commands.get_command_status(execution.id)
    assert status.running is True
    assert status.content == text
    eventually(
        lambda: sandbox.commands.get_background_command_logs(execution.id).content == "first\n"
    )
    first = sandbox.commands.get_background_command_logs(execution.id)
    sandbox.commands.run(f"touch {work}/go")
    eventually(lambda: not sandbox.commands.get_command_status(execution.id).running)
    second = sandbox.commands.get_background_command_logs(execution.id, cursor=first.cursor)
    assert second.content == "second\n"
    assert second.cursor == len("first\nsecond\n")
    ended = sandbox.commands.get_command_status(execution.id)
    assert ended.exit_code == 3
    assert ended.finished_at >= ended.started_at


def scenario_interrupt(sandbox: SandboxSync, work: str) -> None:
    execution = sandbox.commands.run("sleep 1000", opts=RunCommandOpts(background=True))
    sandbox.commands.interrupt(execution.id)
    eventually(lambda: not sandbox.commands.get_command_status(execution.id).running)


def scenario_an_unknown_command_is_an_api_error(sandbox: SandboxSync, work: str) -> None:
    assert_api_error(lambda: sandbox.commands.get_command_status("0" * 32), 404)


def scenario_set_env(sandbox: SandboxSync, work: str) -> None:
    values = {"PLAIN": "value", "SPACED": "a  b", "DOLLAR": "$HOME", "QUOTE": "it's", "EMPTY": ""}
    for key, value in values.items():
        sandbox.commands.set_env(key, value)
    for key, value in values.items():
        execution = sandbox.commands.run(f'printf "[%s]" "${key}"')
        assert execution.text == f"[{value}]", (key, execution.text)
    sandbox.commands.set_env("PLAIN", "changed")
    session = sandbox.commands.create_session()
    assert sandbox.commands.run_in_session(session, "echo $PLAIN").text == "changed"


# --- sessions ---------------------------------------------------------------------------------


def scenario_a_session_keeps_its_state(sandbox: SandboxSync, work: str) -> None:
    session = sandbox.commands.create_session(working_directory=work)
    run = sandbox.commands.run_in_session
    assert run(session, "pwd").text == work
    run(session, "mkdir inner; cd inner; export KEPT=yes")
    assert run(session, "pwd; echo $KEPT").text == f"{work}/inner\nyes"
    assert run(session, "pwd", working_directory=work).text == work
    sandbox.commands.delete_session(session)


def scenario_a_session_survives_exit(sandbox: SandboxSync, work: str) -> None:
    session = sandbox.commands.create_session()
    execution = sandbox.commands.run_in_session(session, "exit 7")
    assert execution.error.value == "7"
    assert execution.exit_code == 7
    assert execution.complete is None
    assert sandbox.commands.run_in_session(session, "echo back").text == "back"


def scenario_a_session_run_times_out(sandbox: SandboxSync, work: str) -> None:
    session = sandbox.commands.create_session()
    timeout = timedelta(milliseconds=300)
    execution = sandbox.commands.run_in_session(session, "sleep 1000", timeout=timeout)
    assert execution.error is not None
    assert sandbox.commands.run_in_session(session, "echo back").text == "back"


def scenario_an_unknown_session_is_an_api_error(sandbox: SandboxSync, work: str) -> None:
    assert_api_error(lambda: sandbox.commands.delete_session("nope"), 404)
    assert_api_error(lambda: sandbox.commands.run_in_session("nope", "true"), 404, 500)


# --- files ------------------------------------------------------------------------------------


def scenario_write_and_read(sandbox: SandboxSync, work: str) -> None:
    sandbox.files.write_file(f"{work}/sub/text.txt", "grüße\nzwei\n")
    assert sandbox.files.read_file(f"{work}/sub/text.txt") == "grüße\nzwei\n"
    sandbox.files.write_file(f"{work}/raw", bytes(range(256)))
    assert sandbox.files.read_bytes(f"{work}/raw") == bytes(range(256))
    sandbox.files.write_files(
        [WriteEntry(path=f"{work}/many{i}", data=f"{i}", mode=640) for i in range(5)]
    )
    assert [sandbox.files.read_file(f"{work}/many{i}") for i in range(5)] == list("01234")


def scenario_ranges_lines_and_streams(sandbox: SandboxSync, work: str) -> None:
    path = f"{work}/lines"
    sandbox.files.write_file(path, "line1\nline2\nline3\nline4\n")
    assert sandbox.files.read_bytes(path, range_header="bytes=0-9") == b"line1\nline"
    assert sandbox.files.read_file(path, offset=2, limit=2) == "line2\nline3"
    large = bytes(range(256)) * 4096
    sandbox.files.write_file(path, large)
    assert b"".join(sandbox.files.read_bytes_stream(path, chunk_size=10_000)) == large


def scenario_information_permissions_and_directories(sandbox: SandboxSync, work: str) -> None:
    sandbox.files.create_directories([WriteEntry(path=f"{work}/d/e", mode=755)])
    sandbox.files.write_file(f"{work}/d/f.txt", "x", mode=644)
    info = sandbox.files.get_file_info([f"{work}/d/f.txt", f"{work}/d/e"])
    assert info[f"{work}/d/f.txt"].mode == 644
    assert info[f"{work}/d/f.txt"].size == 1
    assert info[f"{work}/d/e"].mode == 755
    assert info[f"{work}/d/e"].entry_type == "directory"
    sandbox.files.set_permissions([SetPermissionEntry(path=f"{work}/d/f.txt", mode=600)])
    assert sandbox.files.get_file_info([f"{work}/d/f.txt"])[f"{work}/d/f.txt"].mode == 600
    listed = sandbox.files.list_directory(DirectoryListEntry(path=f"{work}/d"))
    assert [entry.path for entry in listed] == [f"{work}/d/e", f"{work}/d/f.txt"]
    sandbox.files.delete_directories([f"{work}/d"])
    assert_api_error(lambda: sandbox.files.get_file_info([f"{work}/d"]), 404)


def scenario_search_move_replace_delete(sandbox: SandboxSync, work: str) -> None:
    for name in ("a.txt", "deep/b.txt", "c.md"):
        sandbox.files.write_file(f"{work}/{name}", "old old")
    found = sandbox.files.search(SearchEntry(path=work, pattern="*.txt"))
    assert sorted(entry.path for entry in found) == [f"{work}/a.txt", f"{work}/deep/b.txt"]
    sandbox.files.move_files([MoveEntry(src=f"{work}/a.txt", dest=f"{work}/moved/a.txt")])
    replace = ContentReplaceEntry(path=f"{work}/moved/a.txt", old_content="old", new_content="new")
    assert sandbox.files.replace_contents_detailed([replace])[0].replaced_count == 2
    assert sandbox.files.read_file(f"{work}/moved/a.txt") == "new new"
    replace = ContentReplaceEntry(path=f"{work}/c.md", old_content="old", new_content="x")
    sandbox.files.replace_contents([replace])
    assert sandbox.files.read_file(f"{work}/c.md") == "x x"
    sandbox.files.delete_files([f"{work}/c.md", f"{work}/never-there"])
    assert not sandbox.files.search(SearchEntry(path=work, pattern="*.md"))


def scenario_files_with_identity(sandbox: SandboxSync, work: str) -> None:
    me = int(sandbox.commands.run("id -u").text)
    known_uids = int(sandbox.commands.run("cat /proc/self/uid_map").text.split()[2])
    is_any_allowed = me == 0 and known_uids > 65534
    uid, gid = (65534, 65534) if is_any_allowed else (me, int(sandbox.commands.run("id -g").text))
    sandbox.commands.run(f"chmod 777 {work}")
    files = sandbox.files_with_identity(uid, gid)
    files.write_file(f"{work}/theirs", "content", mode=600)
    assert files.read_file(f"{work}/theirs") == "content"
    assert sandbox.commands.run(f"stat -c '%u %g' {work}/theirs").text == f"{uid} {gid}"
    assert [entry.path for entry in files.search(SearchEntry(path=work, pattern="their*"))]


def scenario_a_missing_file_is_an_api_error(sandbox: SandboxSync, work: str) -> None:
    assert_api_error(lambda: sandbox.files.read_file(f"{work}/gone"), 404)


# --- the rest ---------------------------------------------------------------------------------


def scenario_metrics_and_health(sandbox: SandboxSync, work: str) -> None:
    assert sandbox.is_healthy()
    metrics = sandbox.get_metrics()
    assert 0 <= metrics.cpu_used_percentage <= 100
    assert 0 < metrics.memory_used_in_mib <= metrics.memory_total_in_mib


def scenario_uploads_of_server_proxy_mode(sandbox: SandboxSync, work: str) -> None:
    config = ConnectionConfigSync(
        domain=sandbox.connection_config.domain, api_key=KEY, use_server_proxy=True
    )
    with SandboxSync.create(IMAGE, connection_config=config) as proxied:
        proxied.files.write_file(f"{work}/with length.txt", "content")
        assert proxied.files.read_file(f"{work}/with length.txt") == "content"


def scenario_the_async_client(sandbox: SandboxSync, work: str) -> None:
    async def use() -> None:
        config = ConnectionConfig(domain=sandbox.connection_config.domain, api_key=KEY)
        other = await Sandbox.create(IMAGE, connection_config=config)
        async with other:
            executions = await asyncio.gather(*(other.commands.run(f"echo {i}") for i in range(10)))
            assert [e.text for e in executions] == [str(i) for i in range(10)]
            await other.files.write_file(f"{work}/async", "content")
            assert await other.files.read_file(f"{work}/async") == "content"
            session = await other.commands.create_session()
            assert (await other.commands.run_in_session(session, "exit 7")).exit_code == 7

    asyncio.run(use())


def main(domain: str, workdir: str, *_: str) -> None:
    """Run every scenario against one sandbox."""
    logging.disable(logging.CRITICAL)  # the client logs the errors that scenarios provoke
    config = ConnectionConfigSync(domain=domain, api_key=KEY, disable_metrics=True)
    with SandboxSync.create(IMAGE, connection_config=config) as sandbox:
        for name, scenario in list(globals().items()):
            if not name.startswith("scenario_"):
                continue
            failure = None
            try:
                work = f"{workdir}/{name}"
                sandbox.files.create_directories([WriteEntry(path=work, mode=755)])
                scenario(sandbox, work)
            except Exception:  # noqa: BLE001 - whatever it is, it is this scenario's outcome
                failure = traceback.format_exc()
            print(json.dumps({"name": name, "failure": failure}), flush=True)
        sandbox.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
