# SPDX-License-Identifier: Apache-2.0
"""A directory as a tar stream, both ways, and what a hostile archive may not do."""

import io
import tarfile

import httpx
import pytest

from tests.execd.events import assert_error, run
from tests.harness.execd import Daemon


def sh(daemon: Daemon, script: str) -> list[str]:
    execution = run(daemon.client, script, cwd=daemon.workdir)
    assert execution.exit_code == 0, execution.events
    return execution.stdout


def archive(*members: tarfile.TarInfo, content: bytes = b"content") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in members:
            if member.isreg():
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return buffer.getvalue()


def member(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, target, mode
    return made


def extract(daemon: Daemon, body: bytes, name: str = "into") -> httpx.Response:
    query = {"path": f"{daemon.workdir}/{name}"}
    headers = {"content-type": "application/x-tar"}
    return daemon.client.post("/directories/archive", params=query, content=body, headers=headers)


def test_a_directory_goes_out_and_comes_back_the_same(daemon: Daemon) -> None:
    sh(daemon, "mkdir -p from/sub; echo one > from/one; chmod 751 from/one; ln -s one from/link")
    sh(daemon, "head -c 300000 /dev/urandom > from/sub/big")
    answer = daemon.client.get("/directories/archive", params={"path": f"{daemon.workdir}/from"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        assert {n.removeprefix("./") for n in tar.getnames()} >= {"one", "link", "sub", "sub/big"}
    assert extract(daemon, answer.content).status_code == 200
    sh(daemon, "cmp from/one into/one && cmp from/sub/big into/sub/big")
    assert sh(daemon, "stat -c %a into/one; readlink into/link") == ["751", "one"]


def test_an_archive_of_what_is_no_directory_is_refused(daemon: Daemon) -> None:
    sh(daemon, "touch file")
    gone = daemon.client.get("/directories/archive", params={"path": f"{daemon.workdir}/gone"})
    assert_error(gone, 404, "FILE_NOT_FOUND")
    file = daemon.client.get("/directories/archive", params={"path": f"{daemon.workdir}/file"})
    assert file.status_code == 400
    assert_error(daemon.client.get("/directories/archive"), 400, "MISSING_QUERY")


@pytest.mark.parametrize(
    "hostile",
    [
        [member("/absolute")],
        [member("../outside")],
        [member("a/../../outside")],
        [member("device", tarfile.CHRTYPE)],
        [member("block", tarfile.BLKTYPE)],
        [member("fifo", tarfile.FIFOTYPE)],
        [member("link", tarfile.SYMTYPE, ".."), member("link/outside")],
        [member("link", tarfile.SYMTYPE, "/"), member("link/tmp/outside")],
        [member("hard", tarfile.LNKTYPE, "../precious")],
        [member("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [member("l", tarfile.SYMTYPE, "../precious"), member("l")],
        [
            member("l", tarfile.SYMTYPE, "../precious"),
            member("h", tarfile.LNKTYPE, "l"),
            member("h"),
        ],
    ],
    ids=lambda members: " ".join(m.name + ">" + m.linkname for m in members),
)
def test_a_hostile_archive_writes_nothing_outside(
    daemon: Daemon, hostile: list[tarfile.TarInfo]
) -> None:
    sh(daemon, "echo precious > precious; mkdir into")
    answer = extract(daemon, archive(*hostile, content=b"evil"))
    assert answer.status_code in (200, 400, 500)
    assert sh(daemon, "ls; cat precious") == ["into", "precious", "precious"]
    sh(daemon, "[ ! -e /absolute ] && [ ! -e /tmp/outside ]")
    assert sh(daemon, "find into -type c -o -type b -o -type p") == []
    is_only_replaced_link = [m.name for m in hostile] == ["l", "l"]
    assert is_only_replaced_link or answer.status_code >= 400


@pytest.mark.parametrize("body", [b"not a tar" * 100, b"\x00" * 100, b"x"])
def test_a_body_that_is_no_tar_is_refused(shared_daemon: Daemon, body: bytes) -> None:
    assert extract(shared_daemon, body).status_code == 400


def test_a_tar_that_is_cut_is_refused(daemon: Daemon) -> None:
    whole = archive(member("f"), content=b"x" * 10_000)
    assert extract(daemon, whole[:5000]).status_code == 400
