# SPDX-License-Identifier: Apache-2.0
"""Watching a directory over an event stream."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.execd.events import Event, assert_error, frames, next_of, run
from tests.harness.execd import Daemon


@contextmanager
def watching(daemon: Daemon, path: str, recursive: bool = False) -> Iterator[Iterator[Event]]:
    query = {"path": path, "recursive": "true" if recursive else "false"}
    with daemon.client.stream("GET", "/files/watch", params=query) as response:
        assert response.status_code == 200
        assert "text/event-stream" in response.headers["content-type"]
        events = frames(response)
        assert next(events)["type"] == "ready"
        yield events


def test_what_happens_in_a_directory_is_told(daemon: Daemon) -> None:
    with watching(daemon, daemon.workdir) as events:
        run(daemon.client, "echo x > f; chmod 600 f; mv f g; rm g", cwd=daemon.workdir)
        assert next_of(events, "create")["path"] == f"{daemon.workdir}/f"
        assert next_of(events, "chmod")["path"] == f"{daemon.workdir}/f"
        assert next_of(events, "rename")["path"] == f"{daemon.workdir}/f"
        assert next_of(events, "remove")["path"] == f"{daemon.workdir}/g"


def test_a_recursive_watch_sees_directories_made_later(daemon: Daemon) -> None:
    with watching(daemon, daemon.workdir, recursive=True) as events:
        run(daemon.client, "mkdir -p a/b", cwd=daemon.workdir)
        assert next_of(events, "create")["path"] == f"{daemon.workdir}/a"
        while next_of(events, "create")["path"] != f"{daemon.workdir}/a/b":
            pass
        run(daemon.client, "echo x > a/b/f", cwd=daemon.workdir)
        while next_of(events, "create")["path"] != f"{daemon.workdir}/a/b/f":
            pass


def test_a_watch_of_a_missing_path_is_refused(daemon: Daemon) -> None:
    answer = daemon.client.get("/files/watch", params={"path": f"{daemon.workdir}/gone"})
    assert_error(answer, 404, "FILE_NOT_FOUND")
    assert_error(daemon.client.get("/files/watch"), 400, "MISSING_QUERY")
