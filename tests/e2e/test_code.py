# SPDX-License-Identifier: Apache-2.0
"""Code contexts in a real sandbox, with the Python that the server puts beside every image."""

import httpx
import pytest

from opensandbox import SandboxSync
from tests.code.cells import made, results
from tests.harness.server import RuntimeName, Server


def test_python_and_bash_run_in_a_sandbox(server: Server, runtime: RuntimeName) -> None:
    if runtime != "oci":
        pytest.skip("only sandboxes of the embedded runtime have a Python of ours")
    with SandboxSync.create("host", connection_config=server.sync_config) as sandbox:
        endpoint = sandbox.get_endpoint(44772)
        url = f"http://{endpoint.endpoint}"
        with httpx.Client(
            base_url=url, headers=endpoint.headers, trust_env=False, timeout=60
        ) as client:
            python = made(client, "python")
            python.run("x = 20")
            assert results(python.run("x + 22")) == [{"text": "42"}]
            assert python.failure("import os; os._exit(3)")["ename"] == "InterpreterDied"
            assert python.value("1 + 1") == "2"
            python.delete()
            assert made(client, "bash").out("echo $((6 * 7))") == "42\n"
        sandbox.kill()
