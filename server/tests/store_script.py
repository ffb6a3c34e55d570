# SPDX-License-Identifier: Apache-2.0
"""A use of the store that is cut off at any place, and what may be left of it then.

`python -m server.tests.store_script DIRECTORY` plays the script on SQLite again and again, each
time in a process that kills itself one statement later, until it came to its end: DIRECTORY/1.db is
what is left after the first statement, and so on.

With the address of a PostgreSQL database instead, the process kills itself when it has sent a
statement and has no answer yet: place 1 is what is left after the first, and so on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from opensandbox_server.runtimes.base import SandboxSpec
from opensandbox_server.settings.sections import Postgresql
from opensandbox_server.store.postgres import open_postgres
from opensandbox_server.store.sqlite import open_sqlite
from opensandbox_server.store.store import Query, Store, UsedKey
from opensandbox_server.store.stored import StoredSandbox

A = StoredSandbox(SandboxSpec("a", "i", ("x",)), datetime.now(UTC))
B = replace(A, spec=replace(A.spec, id="b"))
VERBS: Sequence[Callable[[Store], Awaitable[object]]] = (
    lambda store: store.insert(A, UsedKey("", "key of a", "print", "a")),
    lambda store: store.update(replace(A, metadata={"k": "v"}), 1, "Started", state="Running"),
    lambda store: store.insert(B, UsedKey("", "key of b", "print", "b")),
    lambda store: store.note("b", "Exited", state="Failed"),
    lambda store: store.delete("a"),
    lambda store: store.delete("b", frees_key=True),
)


async def seen(store: Store) -> object:
    """Return everything that the script may have written."""
    found = {each.id: each for each in await store.query(Query())}
    facts = {name: (each.revision, each.state, each.metadata) for name, each in found.items()}
    events = [[event.kind for event in await store.events(name, 9)] for name in "ab"]
    keys = [await store.key("", f"key of {name}") for name in "ab"]
    return facts, events, keys


async def _play(path: Path, statements: int) -> None:
    left = statements

    def count(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async with open_sqlite(path) as store:
        await store._do(lambda db: db.set_trace_callback(count))
        for verb in VERBS:
            await verb(store)


async def _play_on_postgres(url: str, statements: int) -> None:
    left, one = statements, Postgresql(max_pool_size=1)
    async with open_postgres(
        url, f"prepared {statements}", is_exclusive=False, options=one
    ) as store:
        for verb in VERBS:
            await verb(store)
        store._place = str(statements)
        say = store._say

        async def say_or_die(statement: str, values: Sequence[object]) -> object:
            nonlocal left
            left -= 1
            saying = asyncio.create_task(say(statement, values))
            if left == 0:
                await asyncio.sleep(0)
                os.kill(os.getpid(), signal.SIGKILL)
            return await saying

        store._say = say_or_die  # type: ignore[method-assign,assignment]
        for verb in VERBS:
            await verb(store)


def _play_anywhere(where: str, statements: int) -> Coroutine[None, None, None]:
    if where.startswith("postgresql://"):
        return _play_on_postgres(where, statements)
    return _play(Path(where) / f"{statements}.db", statements)


def main() -> int:
    """Play it for every number of statements."""
    statements, status = 0, -1
    while status:
        statements += 1
        child = os.fork()
        if child == 0:
            asyncio.run(_play_anywhere(sys.argv[1], statements))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL), status
    return 0


if __name__ == "__main__":
    sys.exit(main())
