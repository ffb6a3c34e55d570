# SPDX-License-Identifier: Apache-2.0
"""Makes the sync half of the Python packages, and of their tests, from the async half.

    python scripts/unasync.py           # write
    python scripts/unasync.py --check   # compare; exit 1 when something differs

Every entry of the table must be of use somewhere: one that is not is a mistake, and fails.
"""

import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREES = (
    ROOT / "sdks/python/opensandbox",
    ROOT / "sdks/python/tests",
    ROOT / "sdks/code-interpreter/code_interpreter",
    ROOT / "tests/interpreter",
)

# Written by hand on both sides, because the sides differ in kind there.
BY_HAND = frozenset({"__init__.py", "redis_client.py", "waiting.py", "worker.py"})

# What stands in the async half, word for word, and what the sync half has instead. Phrases come
# before the words in them.
TABLE = {
    "pytestmark = pytest.mark.anyio\n\n": "",
    "AsyncGenerator[bytes, None]": "Generator[bytes, None, None]",
    "Awaitable[bool]": "bool",
    "Awaitable[None]": "None",
    "Awaitable[Remote]": "Remote",
    "Awaitable[SandboxManager]": "SandboxManagerSync",
    "Awaitable[SandboxEndpoint]": "SandboxEndpoint",
    "import Awaitable, Callable": "import Callable",
    "import AsyncIterator, Awaitable, Callable": "import Callable, Iterator",
    "websockets.asyncio": "websockets.sync",
    "async def ": "def ",
    "async with ": "with ",
    "async for ": "for ",
    "await ": "",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "_async": "_sync",
    "__aiter__": "__iter__",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "aread": "read",
    "asynccontextmanager": "contextmanager",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncExitStack": "ExitStack",
    "AsyncGenerator": "Generator",
    "AsyncHTTPTransport": "HTTPTransport",
    "AsyncIterable": "Iterable",
    "AsyncIterator": "Iterator",
    "AsyncPoolConfig": "PoolConfig",
    "AsyncPooledSandboxCreator": "PooledSandboxCreator",
    "AsyncPoolStateStore": "PoolStateStore",
    "AsyncRedis": "Redis",
    "AsyncRedisPoolStateStore": "RedisPoolStateStore",
    "CodeInterpreter": "CodeInterpreterSync",
    "ConnectionConfig": "ConnectionConfigSync",
    "enter_async_context": "enter_context",
    "eventually_async": "eventually",
    "ExecutionHandlers": "ExecutionHandlersSync",
    "handle_async_request": "handle_request",
    "InMemoryAsyncPoolStateStore": "InMemoryPoolStateStore",
    "RetryAsyncTransport": "RetrySyncTransport",
    "Sandbox": "SandboxSync",
    "SandboxManager": "SandboxManagerSync",
    "SandboxPoolAsync": "SandboxPoolSync",
    "SandboxPoolManagerAsync": "SandboxPoolManagerSync",
}
HEADER = "# Made from {source} by scripts/unasync.py; change it there.\n"


def _pattern() -> re.Pattern[str]:
    # A word must not be part of a longer one; what ends in a space or a bracket has an end.
    phrases = [
        r"\b" + re.escape(phrase) + (r"\b" if phrase[-1].isalnum() or phrase[-1] == "_" else "")
        for phrase in TABLE
    ]
    return re.compile("|".join(phrases))


PATTERN = _pattern()


def translate(text: str, used: Counter[str]) -> str:
    """Return the sync form of a source text and count which entries it took."""

    def replaced(found: re.Match[str]) -> str:
        used[found.group()] += 1
        return TABLE[found.group()]

    return PATTERN.sub(replaced, text)


def derived(source: Path, used: Counter[str]) -> str:
    """Return what the file beside ``source`` must contain."""
    first, rest = source.read_text().split("\n", 1)
    header = HEADER.format(source=f"{source.parent.name}/{source.name}")
    return f"{first}\n{header}{translate(rest, used)}"


def differences(*, is_check: bool) -> list[str]:
    """Write the sync half, or only compare it, and return what was wrong."""
    used: Counter[str] = Counter()
    wrong = []
    for tree in TREES:
        sources = {p.name: p for p in (tree / "_async").glob("*.py") if p.name not in BY_HAND}
        for name, source in sorted(sources.items()):
            target = tree / "_sync" / name
            wanted = derived(source, used)
            if is_check and (not target.exists() or target.read_text() != wanted):
                wrong.append(f"{target.relative_to(ROOT)} differs from what its source gives")
            elif not is_check:
                target.parent.mkdir(exist_ok=True)
                target.write_text(wanted)
        for target in sorted((tree / "_sync").glob("*.py")):
            if target.name not in BY_HAND and target.name not in sources:
                wrong.append(f"{target.relative_to(ROOT)} has no source")
    wrong += [
        f"the entry {phrase!r} of the table is not used" for phrase in TABLE if not used[phrase]
    ]
    return wrong


def main() -> int:
    """Do what the command line says."""
    wrong = differences(is_check="--check" in sys.argv[1:])
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
