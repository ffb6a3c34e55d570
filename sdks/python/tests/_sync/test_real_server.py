# SPDX-License-Identifier: Apache-2.0
# Made from _async/test_real_server.py by scripts/unasync.py; change it there.
"""The client against the real server, ingress and daemon, with what goes wrong there."""

import re
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from opensandbox import SandboxSync, SandboxManagerSync
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import (
    SandboxApiException,
    SandboxConnectionException,
    SandboxException,
)
from opensandbox.models import (
    ExecutionHandlersSync,
    ExecutionInit,
    RunCommandOpts,
    SandboxFilter,
)
from opensandbox.transport import RetryPolicy
from sdks.python.tests.cutting import run_cutter
from tests.harness.server import API_KEY, Server

IMPATIENT = RetryPolicy(initial_backoff=timedelta(milliseconds=1))
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def real(served: Server) -> Iterator[SandboxSync]:
    """Hold a sandbox of the real server and end it after the test."""
    assert served.domain
    with SandboxSync.temporary("host") as sandbox:
        yield sandbox


def test_a_terminal_goes_through_the_front_door(real: SandboxSync) -> None:
    with real.terminals.open(rows=30, columns=90, command="stty size") as terminal:
        assert b"30 90" in terminal.receive()


def test_a_tunnel_reaches_what_listens_in_the_sandbox(real: SandboxSync) -> None:
    program = (
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    print(server.getsockname()[1], flush=True)\n"
        "    client, _ = server.accept()\n"
        "    client.sendall(b'you said ' + client.recv(100))\n"
        "    client.close()\n"
    )
    opts = RunCommandOpts(background=True)
    serving = real.commands.run(["python3", "-c", program], opts=opts)
    port = ""
    while not port.endswith("\n"):
        port = (real.commands.get_background_command_logs(str(serving.id))).content
    with real.open_tunnel(int(port)) as tunnel:
        tunnel.send(b"hello")
        received = b""
        while data := tunnel.receive():
            received += data
    assert received == b"you said hello"


def test_directories_go_both_ways(real: SandboxSync, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file").write_bytes(b"x" * 300_000)
    real.files.upload_directory(source, "/tmp/there")
    assert (real.commands.run("wc -c < /tmp/there/deep/file")).text.strip() == "300000"
    real.files.download_directory("/tmp/there", tmp_path / "back")
    assert (tmp_path / "back" / "deep" / "file").read_bytes() == b"x" * 300_000


def test_a_lost_answer_of_a_create_makes_no_second_sandbox(served: Server) -> None:
    with run_cutter(served.domain) as cutter:
        domain = cutter.address
        config = ConnectionConfigSync(domain=domain, api_key=API_KEY, retry_policy=IMPATIENT)
        cutter.cut_after([40, 0])  # in the head of the answer, and the next one before it
        metadata = {"test": "lost-answer"}
        sandbox = SandboxSync.create("host", metadata=metadata, connection_config=config)
        assert cutter.cuts == 2
        with SandboxManagerSync.create(config) as manager:
            page = manager.list_sandbox_infos(SandboxFilter(metadata=metadata))
        assert [info.id for info in page.sandbox_infos] == [sandbox.id]
        sandbox.destroy()


def test_a_run_goes_on_through_a_front_door_that_drops_it(served: Server) -> None:
    with run_cutter(served.domain) as cutter:
        config = ConnectionConfigSync(
            domain=cutter.address,
            api_key=API_KEY,
            retry_policy=IMPATIENT,
            use_server_proxy=True,
            disable_metrics=True,
        )
        with SandboxSync.temporary("host", connection_config=config) as sandbox:
            for budget in (300, 700, 1300):
                cutter.cut_after([budget])
                execution = sandbox.commands.run("for n in $(seq 100); do echo $n; done")
                assert execution.text == "\n".join(map(str, range(1, 101)))
                assert cutter.cuts == 1
            cutter.cut_after([])


def test_a_wrong_key_is_told_with_a_request_id_and_advice(served: Server) -> None:
    config = ConnectionConfigSync(domain=served.domain, api_key="wrong")
    with pytest.raises(SandboxApiException) as refused:
        SandboxSync.create("host", connection_config=config)
    _check(refused.value, 401, "INVALID_API_KEY", "OPEN_SANDBOX_API_KEY")


def test_an_unreachable_server_is_told_with_its_address_and_advice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        domain = f"127.0.0.1:{free.getsockname()[1]}"
    config = ConnectionConfigSync(domain=domain, api_key="any", retry_policy=IMPATIENT)
    with pytest.raises(SandboxConnectionException) as failed:
        SandboxSync.create("host", connection_config=config)
    assert domain in str(failed.value)
    assert "OPEN_SANDBOX_DOMAIN" in str(failed.value)
    assert failed.value.is_retryable


def test_an_unknown_and_an_ended_sandbox_are_told_apart_from_nothing(
    served: Server,
) -> None:
    with pytest.raises(SandboxApiException) as unknown:
        SandboxSync.connect(UNKNOWN)
    _check(unknown.value, 404, "SANDBOX_NOT_FOUND", "list_sandbox_infos")
    assert served.domain
    sandbox = SandboxSync.create("host")
    sandbox.kill()
    with pytest.raises(SandboxException) as ended:
        sandbox.commands.run("true")
    assert isinstance(ended.value, SandboxApiException)
    assert ended.value.status_code == 404
    assert ended.value.request_id
    sandbox.close()


def test_a_sandbox_that_expires_during_a_run_is_told_by_its_run(served: Server) -> None:
    assert served.domain
    sandbox = SandboxSync.create("host")

    def let_it_expire(_: ExecutionInit) -> None:
        sandbox.renew(timedelta(seconds=1))

    handlers = ExecutionHandlersSync(on_init=let_it_expire)
    with pytest.raises(SandboxApiException) as during:
        sandbox.commands.run("echo begun; sleep 600", handlers=handlers)
    _check(during.value, 404, "SANDBOX_NOT_FOUND", "it may have ended")
    with pytest.raises(SandboxApiException) as after:
        sandbox.files.read_file("/etc/hostname")
    _check(after.value, 404, "SANDBOX_NOT_FOUND", "create another")
    sandbox.close()


def test_a_missing_file_is_told_with_a_request_id(real: SandboxSync) -> None:
    with pytest.raises(SandboxApiException) as missing:
        real.files.read_file("/no/such/file")
    _check(missing.value, 404, "FILE_NOT_FOUND", "check the path")


def test_a_signed_endpoint_needs_no_header(real: SandboxSync) -> None:
    signed = real.get_signed_endpoint(8123, 4102444800)
    assert signed.headers == {}
    assert signed.endpoint


def _check(error: SandboxApiException, status: int, code: str, advice: str) -> None:
    assert error.status_code == status
    assert error.error.code.endswith(code)
    assert error.request_id
    assert error.request_id in str(error)
    assert re.search(advice, str(error)), str(error)
