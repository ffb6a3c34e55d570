# SPDX-License-Identifier: Apache-2.0
"""What a command finds in its environment, and who it runs as."""

import pytest

from tests.execd.events import assert_error, run, run_argv
from tests.execd.kinds import several_users
from tests.harness.execd import ORDINARY_UID, SANDBOX_ID, Daemon


def write_env_file(daemon: Daemon, text: str) -> None:
    daemon.outside_path(f"{daemon.workdir}/.execd-envs").write_text(text)


def variable(daemon: Daemon, name: str, **fields: object) -> list[str]:
    return run(daemon.client, f'printf "%s\\n" "${name}"', **fields).stdout


def test_envs_of_the_request_win_over_the_file_and_the_daemon(daemon: Daemon) -> None:
    assert variable(daemon, "LANG") == ["C.UTF-8"]
    write_env_file(daemon, "LANG=from-file\n")
    assert variable(daemon, "LANG") == ["from-file"]
    assert variable(daemon, "LANG", envs={"LANG": "from-request"}) == ["from-request"]


def test_the_env_file_is_read_afresh_for_each_run(daemon: Daemon) -> None:
    for value in ("one", "two"):
        write_env_file(daemon, f"STAGE={value}\n")
        assert variable(daemon, "STAGE") == [value]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("V=plain\n", "plain"),
        ("  V =  spaced out  \n", "spaced out"),
        ("A=base\nV=$A/sub\n", "base/sub"),
        ("A=base\nV=${A}x\n", "basex"),
        ('V="tab\\there"\n', "tab\there"),
        ('V="say \\"hi\\""\n', 'say "hi"'),
        ("V='$HOME stays'\n", "$HOME stays"),
        ("# V=comment\n\nnot an assignment\nV=after\n", "after"),
        ("1X=bad\nV=good\n", "good"),
    ],
)
def test_the_env_file_format(shared_daemon: Daemon, text: str, expected: str) -> None:
    write_env_file(shared_daemon, text)
    assert variable(shared_daemon, "V") == [expected]


def test_a_single_quoted_value_may_span_lines(daemon: Daemon) -> None:
    write_env_file(daemon, "V='first\nsecond'\nW=after\n")
    assert variable(daemon, "V") == ["first", "second"]
    assert variable(daemon, "W") == ["after"]


def test_a_command_can_append_to_the_file_for_later_ones(daemon: Daemon) -> None:
    run(daemon.client, 'test -n "$EXECD_ENVS" && echo ADDED=yes >> "$EXECD_ENVS"')
    assert variable(daemon, "ADDED") == ["yes"]


def test_the_sandbox_id_cannot_be_changed(daemon: Daemon) -> None:
    write_env_file(daemon, "OPENSANDBOX_ID=forged\n")
    assert variable(daemon, "OPENSANDBOX_ID", envs={"OPENSANDBOX_ID": "forged"}) == [SANDBOX_ID]


def test_the_trace_of_the_request_reaches_the_process(daemon: Daemon) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    body = {"command": 'echo "$TRACEPARENT"'}
    answer = daemon.client.post("/command", json=body, headers={"traceparent": parent})
    assert parent.split("-")[1] in answer.text


def test_no_descriptor_of_the_daemon_is_inherited(daemon: Daemon) -> None:
    execution = run(daemon.client, "for f in /proc/$$/fd/*; do echo ${f##*/}; done")
    assert {"0", "1", "2"} <= set(execution.stdout)
    # A shell may keep its script, or the directory it lists, on a descriptor of its own.
    listed = run(daemon.client, "for f in /proc/$$/fd/*; do readlink $f; done").stdout
    assert not [target for target in listed if target.startswith("socket:")]
    assert not [target for target in listed if "journal" in target or "state" in target]


@several_users
def test_uid_alone_takes_the_groups_of_that_user(daemon: Daemon) -> None:
    execution = run(daemon.client, "id -u; id -g; id -G; echo $HOME", uid=ORDINARY_UID)
    assert execution.stdout[:3] == [str(ORDINARY_UID)] * 3
    assert execution.stdout[3] == "/nonexistent"


@several_users
def test_a_uid_that_nobody_has_gets_the_group_of_its_number(daemon: Daemon) -> None:
    assert run(daemon.client, "id -u; id -G", uid=54321).stdout == ["54321", "54321"]


@several_users
def test_gid_is_the_only_group(daemon: Daemon) -> None:
    assert run(daemon.client, "id -u; id -G", uid=1, gid=12345).stdout == ["1", "12345"]


@pytest.mark.parametrize("kind", ["user"], indirect=True)
def test_an_ordinary_user_cannot_become_another(daemon: Daemon) -> None:
    execution = run_argv(daemon.client, "id", "-u", uid=0)
    assert execution.error is not None
    assert "permitted" in execution.error["evalue"]


def test_gid_needs_uid(daemon: Daemon) -> None:
    answer = daemon.client.post("/command", json={"command": "id", "gid": 5})
    assert_error(answer, 400, "INVALID_REQUEST_BODY")
