# SPDX-License-Identifier: Apache-2.0
"""A whole server as an operator runs it: first start, faults at the start, crashes, and the end."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from opensandbox_server.host.id_claims import INGRESS_IDS
from opensandbox_server.host.programs import find_program
from server.tests.world import create_request
from tests.harness.server import API_KEY, NotServing, Serving, serving

FAKE = ("--runtime", "fake")


@pytest.fixture(autouse=True)
def _programs() -> None:
    """Ask for the real programs: they are built before tests run."""
    for name in ("execd", "ingress"):
        if find_program(name) is None:
            pytest.fail(f"{name} is not built: make build")


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """Have a data directory; what still runs in it is ended afterwards."""
    yield tmp_path / "data"
    with serving(tmp_path / "data", *FAKE, "--stop-sandboxes"):
        pass


def create(server: Serving) -> str:
    with server.client() as client:
        answer = client.post("/sandboxes", json=create_request())
    assert answer.status_code == 202, answer.text
    sandbox_id: str = answer.json()["id"]
    return sandbox_id


def ping(server: Serving, sandbox_id: str) -> int:
    with server.client() as client:
        return client.get(f"/sandboxes/{sandbox_id}/proxy/44772/ping").status_code


def test_the_first_start_makes_a_key_and_shows_it_once(data_dir: Path) -> None:
    with serving(data_dir, *FAKE, key=None) as server:
        shown = re.search(r"^    (\S{40,})$", server.log, re.MULTILINE)
        assert shown
        assert httpx.get(f"{server.url}/v1/sandboxes").status_code == 401
        with server.client(shown[1]) as client:
            assert client.get("/sandboxes").status_code == 200
        assert (data_dir / "api_key").stat().st_mode & 0o777 == 0o600
        assert server.url.startswith("http://127.0.0.1:")
    with serving(data_dir, *FAKE, key=None) as server:
        assert shown[1] not in server.log
        with server.client(shown[1]) as client:
            assert client.get("/sandboxes").status_code == 200


def test_a_key_of_a_start_that_failed_is_not_kept(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    config = tmp_path / "config.toml"
    config.write_text(f'[server]\nbin_dir = "{empty}"\n')
    with pytest.raises(NotServing, match="cannot find the ingress program"):
        serving(tmp_path / "data", *FAKE, "--config", str(config), key=None).__enter__()
    assert not (tmp_path / "data" / "api_key").exists()


def test_no_key_is_needed_only_when_the_operator_says_so(data_dir: Path) -> None:
    environment = os.environ | {"OPENSANDBOX_INSECURE_SERVER": "YES"}
    with serving(data_dir, *FAKE, key=None, environment=environment) as server:
        assert httpx.get(f"{server.url}/v1/sandboxes").status_code == 200
        assert "no API key is needed" in server.log
        _expect_pages_kept_out(server.url)


def _expect_pages_kept_out(url: str) -> None:
    here, port = f"{url}/v1/sandboxes", url.rpartition(":")[2]
    preview = f"http://0b9d2c1e-7f4a-4c55-9d3e-1a2b3c4d5e6f-8000.localhost:{port}"
    asks = {"Access-Control-Request-Method": "POST"}
    for origin in (preview, "null", "http://evil.example", f"http://localhost:{port}", ""):
        for answer in (
            httpx.get(here, headers={"Origin": origin}),
            httpx.post(here, json=create_request(), headers={"Origin": origin}),
            httpx.options(here, headers={"Origin": origin} | asks),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "GENERAL::FOREIGN_ORIGIN")
            assert not [name for name in answer.headers if name.startswith("access-control-")]
    for host in (f"evil.example:{port}", "localhost.evil.example", "other.localhost", "[", "x@y"):
        answer = httpx.get(here, headers={"Host": host})
        assert answer.status_code in (400, 421), host
    for host in (f"localhost:{port}", "LOCALHOST.", "10.1.2.3", f"[::1]:{port}"):
        assert httpx.get(here, headers={"Host": host}).status_code == 200, host
    assert httpx.get(here, headers={"Origin": url}).status_code == 200
    assert httpx.get(here).json()["items"] == []


def test_a_data_directory_has_one_server(data_dir: Path) -> None:
    with serving(data_dir, *FAKE) as server:
        with pytest.raises(NotServing) as refusal:
            serving(data_dir, *FAKE).__enter__()
        assert str(refusal.value).count("\n") == 1
        assert f"in use by another server (process {server.pid})" in str(refusal.value)
        assert server.is_running
        assert ping(server, create(server)) == 200, "its sockets are still open to its ingress"


def test_a_port_that_is_taken_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(NotServing) as refusal:
            serving(tmp_path / "data", *FAKE, "--port", port).__enter__()
    assert str(refusal.value).count("\n") == 1
    assert f"127.0.0.1:{port}: the port is taken" in str(refusal.value)


def test_a_broken_store_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "opensandbox.db").write_text("x" * 5000)
    with pytest.raises(NotServing) as refusal:
        serving(tmp_path / "data", *FAKE).__enter__()
    assert "cannot open the store" in str(refusal.value)
    assert "Traceback" not in str(refusal.value)


def test_after_sigterm_sandboxes_run_on_and_the_next_server_has_them(data_dir: Path) -> None:
    with serving(data_dir, *FAKE) as server:
        sandbox_id = create(server)
        assert ping(server, sandbox_id) == 200
        assert server.end() == 0
        assert "Traceback" not in server.log
        assert not (data_dir / "run" / "api.sock").exists()
    with serving(data_dir, *FAKE) as server:
        assert ping(server, sandbox_id) == 200


def test_after_kill_the_next_server_has_every_sandbox(data_dir: Path) -> None:
    with serving(data_dir, *FAKE) as server:
        ids = [create(server) for _ in range(3)]
        with server.client() as client:
            client.post(f"/sandboxes/{ids[0]}/pause").raise_for_status()
        server.end(signal.SIGKILL)
    with serving(data_dir, *FAKE) as server:
        assert [ping(server, sandbox_id) for sandbox_id in ids] == [409, 200, 200]
        with server.client() as client:
            client.post(f"/sandboxes/{ids[0]}/resume").raise_for_status()
            assert ping(server, ids[0]) == 200
            for sandbox_id in ids:
                assert client.delete(f"/sandboxes/{sandbox_id}").status_code == 204
        assert list((data_dir / "sandboxes").iterdir()) == []


def test_with_stop_sandboxes_nothing_runs_on(data_dir: Path) -> None:
    with serving(data_dir, *FAKE, "--stop-sandboxes") as server:
        create(server)
        assert server.end(signal.SIGINT) == 0
    assert list((data_dir / "sandboxes").iterdir()) == []
    with sqlite3.connect(data_dir / "opensandbox.db") as db:
        assert db.execute("SELECT count(*) FROM sandboxes").fetchone() == (0,)
    db.close()


def test_an_ingress_that_dies_is_replaced(data_dir: Path) -> None:
    with serving(data_dir, *FAKE) as server:
        sandbox_id = create(server)
        os.kill(int(_ingress(server)), signal.SIGKILL)
        assert httpx.get(f"{server.url}/health").status_code == 200
        assert create(server) != sandbox_id
        assert ping(server, sandbox_id) == 200


def test_ingress_has_no_privileges(data_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a server that is root has privileges to drop")
    with serving(data_dir, *FAKE) as server:
        status = Path(f"/proc/{_ingress(server)}/status").read_text()
        ids = {*_ids(status, "Uid"), *_ids(status, "Gid")}
        assert len(ids) == 1
        assert ids <= set(INGRESS_IDS)
        assert re.search(r"^Groups:\t ?$", status, re.MULTILINE)
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)


def test_ingress_of_one_server_cannot_reach_sandboxes_of_another(
    data_dir: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a server that is root has an ingress of another user")
    with (
        serving(data_dir, *FAKE) as one,
        serving(tmp_path / "other" / "data", *FAKE, "--stop-sandboxes") as other,
    ):
        users = [Path(f"/proc/{_ingress(server)}").stat().st_uid for server in (one, other)]
        assert not set(users) & set(range(61184, 65520)), "systemd gives these to services"
        assert users[0] != users[1]
        create(other)
        run = tmp_path / "other" / "data" / "run"
        sockets = [path for path in run.rglob("*") if path.is_socket()]
        assert len(sockets) == 2, "of the API and of an execd"
        for path in sockets:
            assert _connects(users[1], run, path)
            assert not _connects(users[0], run, path)


def test_sandboxes_are_reached_when_ingress_becomes_another_user(
    data_dir: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a server that is root has an ingress of another user")
    config = tmp_path / "config.toml"
    config.write_text('[server]\ningress_user = "12345:12346"\n')
    with serving(data_dir, *FAKE, "--config", str(config)) as server:
        status = Path(f"/proc/{_ingress(server)}/status").read_text()
        assert (set(_ids(status, "Uid")), set(_ids(status, "Gid"))) == ({12345}, {12346})
        sandbox_id = create(server)
    with serving(data_dir, *FAKE) as server:
        assert ping(server, sandbox_id) == 200


def _ingress(server: Serving) -> str:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    return next(pid for pid in children.read_text().split() if _name(pid) == "ingress")


def _ids(status: str, kind: str) -> list[int]:
    found = re.search(rf"^{kind}:\t(.*)$", status, re.MULTILINE)
    assert found
    return [int(number) for number in found[1].split()]


def _connects(user: int, run: Path, path: Path) -> bool:
    """Say whether a user can connect who already has the directory of sockets open."""
    code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    directory = os.open(run, os.O_PATH | os.O_DIRECTORY)
    try:
        done = subprocess.run(
            ["/usr/bin/python3", "-c", code, f"/proc/self/fd/{directory}/{path.relative_to(run)}"],
            user=user,
            group=user,
            extra_groups=[],
            pass_fds=[directory],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(directory)
    assert done.returncode == 0 or "PermissionError" in done.stderr, done.stderr
    return done.returncode == 0


def test_event_loop_and_store_run_before_everything_they_start(data_dir: Path) -> None:
    ask = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    if subprocess.run([sys.executable, "-c", ask], capture_output=True, check=False).returncode:
        pytest.skip("this user may not ask for real-time priority")
    with serving(data_dir, *FAKE) as server:
        create(server)
        loop = server.pid
        threads = [int(task.name) for task in Path(f"/proc/{loop}/task").iterdir()]
        urgent = [thread for thread in threads if _policy(thread) == os.SCHED_RR]
        assert loop in urgent
        assert len(urgent) == 2, "the loop, the store and nobody else"
        children = Path(f"/proc/{loop}/task/{loop}/children").read_text().split()
        assert {"ingress", "execd"} <= {_name(child) for child in children}
        assert {_policy(int(child)) for child in children} == {os.SCHED_OTHER}


def test_a_key_in_the_environment_is_the_key(data_dir: Path) -> None:
    with serving(data_dir, *FAKE) as server, server.client(API_KEY) as client:
        assert client.get("/sandboxes").status_code == 200
        assert not (data_dir / "api_key").exists()


@pytest.mark.parametrize("way", ["through ingress", "straight to the API"])
def test_a_chunked_body_without_end_is_cut_and_not_kept(data_dir: Path, way: str) -> None:
    with serving(data_dir, *FAKE) as server:
        before = _resident(server.pid)
        host, port = server.url.removeprefix("http://").split(":")
        if way == "through ingress":
            link = socket.create_connection((host, int(port)), timeout=30)
        else:
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(30)
            link.connect(str(data_dir / "run" / "api.sock"))
        with link:
            answer = _send_chunks(link, 64 * 1024 * 1024)
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b'"code":"GENERAL::BODY_TOO_LARGE"' in answer
        assert _resident(server.pid) - before < 16 * 1024 * 1024


def _send_chunks(link: socket.socket, most: int) -> bytes:
    """Send a body until the other side has had enough; return its answer."""
    head = "POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    link.sendall(f"{head}OPEN-SANDBOX-API-KEY: {API_KEY}\r\n\r\n".encode())
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with contextlib.suppress(ConnectionError):
        for _ in range(most // 0x10000):
            if select.select([link], [], [], 0)[0]:
                break
            link.sendall(chunk)
    return link.recv(65536)


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _policy(thread: int) -> int:
    return os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK


def _name(pid: str) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
