# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
# The types are those of another package of the same name.
"""Makes the calls of one exchange with the published client. Runs in its virtual environment.

    python exchanges.py CALLS NAME DOMAIN KEY

CALLS is a file with one function for each exchange; NAME says which.
"""

import asyncio
import importlib.util
import sys
from pathlib import Path


def main(calls: Path, name: str, domain: str, key: str) -> None:
    """Load the file, make a configuration of its kind, call the function."""
    found = importlib.util.spec_from_file_location("calls", calls)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    is_async = hasattr(module, "ConnectionConfig")
    kind = module.ConnectionConfig if is_async else module.ConnectionConfigSync
    outcome = getattr(module, name)(kind(domain=domain, api_key=key))
    if is_async:
        asyncio.run(outcome)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
