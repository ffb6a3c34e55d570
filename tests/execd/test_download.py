# SPDX-License-Identifier: Apache-2.0
"""Downloading files: whole, by range, by line."""

import httpx
import pytest

from tests.execd.events import assert_error, run
from tests.execd.multipart import write
from tests.harness.execd import Daemon

TEN = b"0123456789"


def download(daemon: Daemon, name: str, **query: str) -> httpx.Response:
    headers = {"range": query.pop("range")} if "range" in query else {}
    params = {"path": f"{daemon.workdir}/{name}", **query}
    return daemon.client.get("/files/download", params=params, headers=headers)


def test_a_whole_file_has_length_and_disposition(daemon: Daemon) -> None:
    write(daemon.client, f"{daemon.workdir}/ten", TEN)
    answer = download(daemon, "ten")
    assert answer.status_code == 200
    assert answer.content == TEN
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == "10"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "ten" in answer.headers["content-disposition"]


def test_a_name_that_is_not_ascii_is_encoded_in_the_header(daemon: Daemon) -> None:
    write(daemon.client, f"{daemon.workdir}/naïve.txt", b"x")
    assert "filename*=" in download(daemon, "naïve.txt").headers["content-disposition"].lower()


@pytest.mark.parametrize(
    ("value", "content", "content_range"),
    [
        ("bytes=0-3", b"0123", "bytes 0-3/10"),
        ("bytes=8-", b"89", "bytes 8-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=5-100", b"56789", "bytes 5-9/10"),
        ("bytes=-100", TEN, "bytes 0-9/10"),
        ("bytes=1-2,5-6", b"12", "bytes 1-2/10"),
    ],
)
def test_a_range_is_answered_with_206(
    shared_daemon: Daemon, value: str, content: bytes, content_range: str
) -> None:
    write(shared_daemon.client, f"{shared_daemon.workdir}/ten", TEN)
    answer = download(shared_daemon, "ten", range=value)
    assert answer.status_code == 206
    assert answer.content == content
    assert answer.headers["content-range"] == content_range


@pytest.mark.parametrize("value", ["bytes=10-", "bytes=100-200", "bytes=-0"])
def test_a_range_outside_the_file_is_answered_with_416(shared_daemon: Daemon, value: str) -> None:
    write(shared_daemon.client, f"{shared_daemon.workdir}/ten", TEN)
    assert download(shared_daemon, "ten", range=value).status_code == 416


@pytest.mark.parametrize("value", ["bytes=x-", "bytes=5-2", "bytes=", "bytes=--1"])
def test_a_malformed_range_is_refused(shared_daemon: Daemon, value: str) -> None:
    write(shared_daemon.client, f"{shared_daemon.workdir}/ten", TEN)
    assert download(shared_daemon, "ten", range=value).status_code in (400, 416)


def test_a_range_in_another_unit_is_ignored_as_http_says(daemon: Daemon) -> None:
    write(daemon.client, f"{daemon.workdir}/ten", TEN)
    assert download(daemon, "ten", range="lines=1-2").content == TEN


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ({"offset": "2", "limit": "2"}, b"line2\nline3"),
        ({"offset": "4"}, b"line4\nline5"),
        ({"limit": "1"}, b"line1"),
        ({"offset": "9"}, b""),
        ({"offset": "1", "limit": "100"}, b"line1\nline2\nline3\nline4\nline5"),
    ],
)
def test_lines_are_joined_without_a_newline_at_the_end(
    shared_daemon: Daemon, query: dict[str, str], content: bytes
) -> None:
    write(
        shared_daemon.client,
        f"{shared_daemon.workdir}/lines",
        b"line1\nline2\nline3\nline4\nline5\n",
    )
    answer = download(shared_daemon, "lines", **query)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.content == content


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "99999999999999999999"])
@pytest.mark.parametrize("name", ["offset", "limit"])
def test_an_offset_or_limit_that_is_not_positive_is_refused(
    shared_daemon: Daemon, name: str, value: str
) -> None:
    write(shared_daemon.client, f"{shared_daemon.workdir}/lines", b"1\n2\n")
    assert download(shared_daemon, "lines", **{name: value}).status_code == 400


def test_lines_and_range_together_are_refused(shared_daemon: Daemon) -> None:
    write(shared_daemon.client, f"{shared_daemon.workdir}/ten", TEN)
    assert download(shared_daemon, "ten", range="bytes=0-1", offset="1").status_code == 400


def test_what_is_no_file_is_refused(daemon: Daemon) -> None:
    run(daemon.client, "mkdir d; mkfifo p", cwd=daemon.workdir)
    assert_error(download(daemon, "missing"), 404, "FILE_NOT_FOUND")
    assert_error(daemon.client.get("/files/download"), 400, "MISSING_QUERY")
    for name in ("d", "p"):
        assert download(daemon, name).status_code in (400, 500), name


def test_a_download_follows_an_ordinary_symlink(daemon: Daemon) -> None:
    run(daemon.client, "printf hello > file; ln -s file link", cwd=daemon.workdir)
    assert download(daemon, "link").content == b"hello"


def test_a_link_that_leads_to_itself_is_refused(daemon: Daemon) -> None:
    run(daemon.client, "ln -s loop loop", cwd=daemon.workdir)
    assert download(daemon, "loop").status_code >= 400
    assert daemon.client.get("/ping").status_code == 200
