# SPDX-License-Identifier: Apache-2.0
"""The program that people know from the published interpreter runs as it is printed."""

import os
import subprocess
import sys

from tests.harness.server import API_KEY, Server

PROGRAM = '''
import asyncio
from datetime import timedelta

from code_interpreter import CodeInterpreter, SupportedLanguage
from opensandbox import Sandbox
from opensandbox.models import WriteEntry


async def main() -> None:
    sandbox = await Sandbox.create(
        "host",
        env={"PYTHON_VERSION": "3.11"},
        timeout=timedelta(minutes=10),
    )

    async with sandbox:
        execution = await sandbox.commands.run("echo 'Hello OpenSandbox!'")
        print(execution.logs.stdout[0].text)

        await sandbox.files.write_files([
            WriteEntry(path="/tmp/hello.txt", data="Hello World", mode=644)
        ])
        content = await sandbox.files.read_file("/tmp/hello.txt")
        print(f"Content: {content}")

        interpreter = await CodeInterpreter.create(sandbox)
        result = await interpreter.codes.run(
            """
                import sys
                print(sys.version)
                result = 2 + 2
                result
            """,
            language=SupportedLanguage.PYTHON,
        )
        print(result.result[0].text)
        print(result.logs.stdout[0].text)

        await sandbox.kill()


asyncio.run(main())
'''


def test_the_known_program_runs_as_printed(server: Server) -> None:
    where = {"OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": API_KEY}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=os.environ | where,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    hello, content, result, version, *_ = done.stdout.splitlines()
    assert (hello, content, result) == ("Hello OpenSandbox!", "Content: Hello World", "4")
    assert version.startswith("3.")
