# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The types are those of another package of the same name.
"""What a user of the published interpreter client does. Runs in the client's own environment.

    python published_cells.py DOMAIN LANGUAGE

Prints one line of JSON for each cell: what the client made of it. SANDBOX_IMAGE and
SANDBOX_API_KEY are for a server that looks at them.
"""

import asyncio
import json
import logging
import os
import sys
from datetime import timedelta

from code_interpreter import CodeInterpreter
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig

CELLS = {
    "python": ["x = 20", "x + 22", "print('grüße')\nx", "missing"],
    "bash": ["x=20", "echo $((x + 22))", "echo grüße", "exit 3"],
    "javascript": ["let x = 20", "x + 22", "console.log('grüße'); x", "missing"],
    "typescript": ["let x: number = 20", "x + 22", "console.log('grüße'); x", "missing"],
    "java": ["int x = 20;", "x + 22", 'System.out.println("grüße"); x', "missing"],
    "go": ["x := 20", "x + 22", 'import "fmt"\nfmt.Println("grüße")\nx', "missing"],
}


async def main(domain: str, *languages: str) -> None:
    """Make an interpreter, and run every cell of each language in a context of its own."""
    logging.disable(logging.CRITICAL)
    key, image = os.environ.get("SANDBOX_API_KEY", "key"), os.environ.get("SANDBOX_IMAGE", "any")
    config = ConnectionConfig(domain=domain, api_key=key, request_timeout=timedelta(seconds=90))
    sandbox = await Sandbox.create(image, connection_config=config)
    async with sandbox:
        interpreter = await CodeInterpreter.create(sandbox)
        for language in languages:
            context = await interpreter.codes.create_context(language)
            for cell in CELLS[language]:
                execution = await interpreter.codes.run(cell, context=context)
                print(json.dumps(_report(execution)))
            default = await interpreter.codes.run(CELLS[language][0], language=language)
            assert default.error is None, default.error
            assert context.id in [c.id for c in await interpreter.codes.list_contexts(language)]
            await interpreter.codes.delete_context(context.id)
        await sandbox.kill()


def _report(execution) -> dict:
    return {
        "out": "".join(message.text for message in execution.logs.stdout),
        "result": [result.text.strip() for result in execution.result],
        "error": execution.error.name if execution.error else None,
        "is_complete": execution.complete is not None,
    }


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
