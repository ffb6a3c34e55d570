# SPDX-License-Identifier: Apache-2.0
"""Uploading files."""

import os
from collections.abc import Iterator

import pytest

from tests.execd.events import assert_error, run
from tests.execd.kinds import several_users
from tests.execd.multipart import BOUNDARY, CONTENT_TYPE, END, metadata, part, send, write
from tests.harness.execd import Daemon


def read(daemon: Daemon, name: str) -> bytes:
    return daemon.outside_path(f"{daemon.workdir}/{name}").read_bytes()


def names(daemon: Daemon) -> set[str]:
    return {entry.name for entry in daemon.outside_path(daemon.workdir).iterdir()} - {".execd-envs"}


@pytest.mark.parametrize("size", [0, 1, 4096, 100_000, 3 << 20])
def test_what_is_uploaded_is_what_is_there(daemon: Daemon, size: int) -> None:
    content = os.urandom(size)
    write(daemon.client, f"{daemon.workdir}/data.bin", content)
    assert read(daemon, "data.bin") == content


def test_content_that_looks_like_a_boundary_is_content(daemon: Daemon) -> None:
    content = f"--{BOUNDARY}\r\n--{BOUNDARY}x\r\n\r\n--{BOUNDARY[:-1]}--\r\n--".encode()
    content = b"\r\n--not" + content.replace(f"--{BOUNDARY}\r\n".encode(), b"--" + b"x" * 70)
    write(daemon.client, f"{daemon.workdir}/tricky", content)
    assert read(daemon, "tricky") == content


def test_several_files_in_one_body(daemon: Daemon) -> None:
    parts = [
        piece
        for i in range(5)
        for piece in (metadata(f"{daemon.workdir}/f{i}"), part("file", b"%d" % i))
    ]
    assert send(daemon.client, *parts).status_code == 200
    assert [read(daemon, f"f{i}") for i in range(5)] == [b"%d" % i for i in range(5)]


def test_a_body_without_a_length_is_taken(daemon: Daemon) -> None:
    def pieces() -> Iterator[bytes]:
        yield metadata(f"{daemon.workdir}/chunked")
        body = part("file", b"x" * 100_000)
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]
        yield END

    answer = daemon.client.post(
        "/files/upload", content=pieces(), headers={"content-type": CONTENT_TYPE}
    )
    assert answer.status_code == 200, answer.text
    assert read(daemon, "chunked") == b"x" * 100_000


def test_parents_are_made_and_an_existing_file_is_replaced(daemon: Daemon) -> None:
    path = f"{daemon.workdir}/a/b/c.txt"
    write(daemon.client, path, b"a long first content")
    write(daemon.client, path, b"short")
    assert read(daemon, "a/b/c.txt") == b"short"


def test_the_mode_is_set(daemon: Daemon) -> None:
    write(daemon.client, f"{daemon.workdir}/f", b"x", mode=640)
    assert run(daemon.client, "stat -c %a f", cwd=daemon.workdir).stdout == ["640"]


@several_users
def test_owner_and_group_are_set(daemon: Daemon) -> None:
    write(daemon.client, f"{daemon.workdir}/f", b"x", owner="nobody", group="nogroup")
    shown = run(daemon.client, "stat -c '%u %g' f", cwd=daemon.workdir).stdout
    assert shown == ["65534 65534"]


def test_a_path_may_begin_with_the_home_directory_or_a_variable(daemon: Daemon) -> None:
    write(daemon.client, "~/tilde", b"1")
    write(daemon.client, "$HOME/variable", b"2")
    assert (read(daemon, "tilde"), read(daemon, "variable")) == (b"1", b"2")


@pytest.mark.parametrize(
    "name", ["with space", "ünïcode", 'quo"te', "back\\slash", "new\nline", "-rf", "%2e%2e"]
)
def test_odd_names_are_kept(daemon: Daemon, name: str) -> None:
    write(daemon.client, f"{daemon.workdir}/{name}", b"odd")
    assert read(daemon, name) == b"odd"
    answer = daemon.client.get("/files/download", params={"path": f"{daemon.workdir}/{name}"})
    assert answer.content == b"odd"


def test_parts_that_do_not_pair_are_refused(shared_daemon: Daemon) -> None:
    wrong = [
        [],
        [metadata(f"{shared_daemon.workdir}/x")],
        [part("file", b"x")],
        [
            metadata(f"{shared_daemon.workdir}/x"),
            metadata(f"{shared_daemon.workdir}/y"),
            part("file", b"x"),
        ],
    ]
    for parts in wrong:
        assert_error(send(shared_daemon.client, *parts), 400, "INVALID_FILE")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"path":""}',
        b'{"path":5}',
        b'{"path":"x","mode":999}',
        b'{"path":"x","mode":-1}',
        b'{"path":"a\\u0000b","mode":644}',
        b"\xff",
    ],
    ids=repr,
)
def test_metadata_that_makes_no_sense_is_refused(shared_daemon: Daemon, body: bytes) -> None:
    answer = send(shared_daemon.client, part("metadata", body), part("file", b"x"))
    assert_error(answer, 400, "INVALID_FILE_METADATA")


def test_a_body_that_is_cut_leaves_no_partial_file(daemon: Daemon) -> None:
    answer = send(
        daemon.client, metadata(f"{daemon.workdir}/cut"), part("file", b"x" * 1000), end=b""
    )
    assert answer.status_code == 400
    assert names(daemon) == set()


@pytest.mark.parametrize(
    "content_type", ["application/json", "multipart/form-data", "multipart/mixed; boundary=x", ""]
)
def test_a_content_type_that_is_not_a_form_is_refused(
    shared_daemon: Daemon, content_type: str
) -> None:
    headers = {"content-type": content_type}
    answer = shared_daemon.client.post("/files/upload", content=b"x", headers=headers)
    assert answer.status_code == 400
    assert answer.json()["code"].startswith("INVALID_")


def test_an_upload_does_not_go_through_a_symlink(daemon: Daemon) -> None:
    run(daemon.client, "echo precious > target; ln -s target link; ln -s . dir", cwd=daemon.workdir)
    for path in ("link", "dir/new"):
        answer = send(daemon.client, metadata(f"{daemon.workdir}/{path}"), part("file", b"x"))
        assert answer.status_code >= 400, path
    assert read(daemon, "target") == b"precious\n"
    assert names(daemon) == {"target", "link", "dir"}


def test_an_upload_onto_a_directory_fifo_or_device_is_refused(daemon: Daemon) -> None:
    run(daemon.client, "mkdir d; mkfifo p", cwd=daemon.workdir)
    for path in (f"{daemon.workdir}/d", f"{daemon.workdir}/p", "/dev/null", "/proc/self/comm"):
        answer = send(daemon.client, metadata(path), part("file", b"x"))
        assert answer.status_code >= 400, path
        assert answer.json()["code"]
    kinds = run(daemon.client, "[ -d d ] && [ -p p ] && [ -c /dev/null ]", cwd=daemon.workdir)
    assert kinds.exit_code == 0
