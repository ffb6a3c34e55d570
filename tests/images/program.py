# SPDX-License-Identifier: Apache-2.0
"""The program of the code interpreter, as its page shows it; `make images` runs it."""

import asyncio
from datetime import timedelta

from code_interpreter import CodeInterpreter, SupportedLanguage
from opensandbox import Sandbox
from opensandbox.models import WriteEntry


async def main() -> None:
    """Use a sandbox of the image: a command, a file, a cell."""
    sandbox = await Sandbox.create(
        "opensandbox/code-interpreter:v1.0.1",
        entrypoint=["/opt/opensandbox/code-interpreter.sh"],
        env={"PYTHON_VERSION": "3.11"},
        timeout=timedelta(minutes=10),
    )

    async with sandbox:
        execution = await sandbox.commands.run("echo 'Hello OpenSandbox!'")
        print(execution.logs.stdout[0].text)

        await sandbox.files.write_files(
            [WriteEntry(path="/tmp/hello.txt", data="Hello World", mode=644)]
        )
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


if __name__ == "__main__":
    asyncio.run(main())
