# SPDX-License-Identifier: Apache-2.0
"""Keys, tokens and values of the environment are said to nobody: no log, error or process list."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.server import API_KEY, Server, make_home, obstacle, start_server
from tests.harness.wait import eventually

SIGNING_KEY = base64.b64encode(b"signs routes in the tests").decode()
ENV_VALUE = "value-of-a-variable-that-nobody-may-see"
COMMAND_VALUE = "value-of-a-command-that-nobody-may-see"
WRONG_KEY = "a-key-with-one-wrong-letter"
PLACES = ("cmdline", "environ")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that logs everything it can, with a signing key of the operator."""
    if reason := obstacle("oci"):
        pytest.skip(reason)
    with make_home() as home:
        config = home / "config.toml"
        key = f'[[ingress.secure_access.keys]]\nkey_id = "k"\nkey = "{SIGNING_KEY}"\n'
        config.write_text(f'[log]\nlevel = "DEBUG"\n{key}')
        started = start_server("oci", home, flags=(f"--config={config}",))
        try:
            yield started
        finally:
            started.sweep()


class Watch:
    """Notes what the processes of a server have in sight, also those that live for a moment."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seen: set[tuple[str, str, bytes]] = set()
        """Program, place and what was there. What an operator gave the server itself is left out,
        and so is the environment of sandboxes: it is theirs."""

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(0.001):
            for pid in self._server.descendants():
                with contextlib.suppress(OSError):
                    self._look(pid)

    def _look(self, pid: int) -> None:
        process = Path(f"/proc/{pid}")
        program = (process / "comm").read_text().strip()
        is_inside = (process / "ns/user").readlink() != Path("/proc/self/ns/user").readlink()
        for place in PLACES:
            if place == "environ" and (is_inside or pid == self._server.pid):
                continue
            self.seen.add((program, place, (process / place).read_bytes()))


def ask(server: Server, method: str, path: str, key: str = API_KEY, **more: Any) -> httpx.Response:
    """Send one request."""
    headers = {"OPEN-SANDBOX-API-KEY": key} | more.pop("headers", {})
    url = path if "://" in path else f"http://{server.domain}{path}"
    return httpx.request(method, url, headers=headers, timeout=60, **more)


def create(server: Server, **more: Any) -> httpx.Response:
    """Create a sandbox that has a secret in its environment."""
    wanted = {
        "image": {"uri": "host"},
        "entrypoint": ["sleep", "infinity"],
        "resourceLimits": {},
        "env": {"SECRET": ENV_VALUE},
        "secureAccess": True,
    }
    return ask(server, "POST", "/v1/sandboxes", json=wanted | more)


def wait_until_running(server: Server, path: str) -> None:
    """Return when the sandbox runs; a create may answer earlier."""
    eventually(lambda: ask(server, "GET", path).json()["status"]["state"] == "Running")


def live_a_life(server: Server) -> tuple[set[str], list[str]]:
    """Create, use, fail in and delete a sandbox; return the secrets it had and what was said."""
    created = create(server)
    assert created.status_code < 300, created.text
    path = f"/v1/sandboxes/{created.json()['id']}"
    wait_until_running(server, path)
    execd = ask(server, "GET", f"{path}/endpoints/44772").json()
    tokens = set(execd["headers"].values())
    assert len(tokens) >= 2, "one of execd and one of the sandbox"
    expires = int(time.time()) + 600
    signed = ask(server, "GET", f"{path}/endpoints/8000?expires={expires}").json()["endpoint"]
    body = {"command": "exit 3", "envs": {"SECRET": COMMAND_VALUE}}
    url = f"http://{execd['endpoint']}/command"
    assert ask(server, "POST", url, headers=execd["headers"], json=body).status_code == 200
    said = [
        ask(server, "POST", url, headers={"X-EXECD-ACCESS-TOKEN": WRONG_KEY}, json=body).text,
        ask(server, "GET", f"http://{signed}").text,
        ask(server, "GET", f"{path}/diagnostics/summary").text,
        ask(server, "GET", f"{path}/diagnostics/events").text,
        ask(server, "DELETE", path).text,
        ask(server, "GET", path).text,
    ]
    return {*tokens, signed.partition("/")[2]}, said


def fail(server: Server) -> list[str]:
    """Ask for what cannot be, with secrets in the question; return the errors."""
    failed = [
        create(server, entrypoint=["/no/such/program"]),
        create(
            server, image={"uri": "no-such-image", "auth": {"username": "u", "password": ENV_VALUE}}
        ),
        create(server, env={"SECRET": [ENV_VALUE]}),
        create(server, env={f"A={ENV_VALUE}": "x"}),
        create(server, env={"SECRET": f"{ENV_VALUE}\0"}),
        create(server, env={"SECRET": ENV_VALUE + "x" * 500_000}),
        create(server, env={"OPENSANDBOX_LIFECYCLE": ENV_VALUE}),
        ask(server, "POST", "/v1/sandboxes", content=f'{{"env": {{"A": "{ENV_VALUE}"'),
        ask(server, "GET", "/v1/sandboxes", key=WRONG_KEY),
    ]
    for answer in failed:
        if answer.status_code < 300:
            ask(server, "DELETE", f"/v1/sandboxes/{answer.json()['id']}")
    assert sum(answer.status_code >= 400 for answer in failed) >= 6
    return [answer.text for answer in failed if answer.status_code >= 400]


def test_no_log_no_error_and_no_process_list_has_a_secret(server: Server) -> None:
    with Watch(server) as watch:
        tokens, said = live_a_life(server)
        said += fail(server)
    server.terminate()
    server.wait_until_nothing_is_left()
    secrets = {API_KEY, SIGNING_KEY, ENV_VALUE, COMMAND_VALUE, WRONG_KEY, *tokens}
    assert "/v1/sandboxes" in server.log, "every request is logged"
    assert {"ingress", "execd"} <= {program for program, _, _ in watch.seen}
    for secret in secrets:
        assert secret not in server.log
        assert not [text for text in said if secret in text]
        text = secret.encode()
        assert not [(program, place) for program, place, what in watch.seen if text in what]
