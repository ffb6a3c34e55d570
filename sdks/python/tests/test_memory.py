# SPDX-License-Identifier: Apache-2.0
"""Large things pass through the client at flat memory, measured in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.server import Server

SIZE_MIB = int(os.environ.get("OPENSANDBOX_TRANSFER_MIB", "128"))
MOST_GROWTH_MIB = 48  # buffers, threads and what the allocator keeps; far from the size
RUN_SECONDS = 300.0

PROGRAM = """
import asyncio, json, os, resource, sys
from pathlib import Path
from opensandbox import Sandbox, SandboxSync
from opensandbox.models import ExecutionHandlers

work, mib, kind = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
large = work / "source" / "large"
WRITES = "head -c %d /dev/zero | tr '\\\\0' x | fold -w 1023"

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

async def main():
    async with Sandbox.temporary("host") as sandbox:
        await warm(sandbox)
        before = peak()
        await sandbox.files.upload_file(large, "/tmp/large")
        await sandbox.files.download_file("/tmp/large", work / "back")
        await sandbox.files.delete_files(["/tmp/large"])
        (work / "back").unlink()
        await sandbox.files.upload_directory(work / "source", "/tmp/tree")
        await sandbox.files.download_directory("/tmp/tree", work / "tree")
        sizes = [(work / "tree" / "large").stat().st_size]
        seen = 0
        async def count(message):
            nonlocal seen
            seen += len(message.text) + 1
        handlers = ExecutionHandlers(on_stdout=count, skip_accumulation=True)
        await sandbox.commands.run(WRITES % (mib << 18), handlers=handlers)
        return before, peak(), sizes, seen

async def warm(sandbox):
    (work / "small").mkdir()
    (work / "small" / "file").write_bytes(b"x" * (4 << 20))
    await sandbox.files.upload_file(work / "small" / "file", "/tmp/small")
    await sandbox.files.download_file("/tmp/small", work / "small-back")
    await sandbox.files.upload_directory(work / "small", "/tmp/small-tree")
    await sandbox.files.download_directory("/tmp/small-tree", work / "small-tree")
    handlers = ExecutionHandlers(skip_accumulation=True)
    await sandbox.commands.run(WRITES % (4 << 20), handlers=handlers)

def main_sync():
    with SandboxSync.temporary("host") as sandbox:
        sandbox.files.write_file("/tmp/small", b"x" * (4 << 20))
        sandbox.files.download_file("/tmp/small", work / "small-back")
        before = peak()
        sandbox.files.upload_file(large, "/tmp/large")
        sandbox.files.download_file("/tmp/large", work / "back")
        seen = sum(len(piece) for piece in sandbox.files.read_bytes_stream("/tmp/large"))
        return before, peak(), [(work / "back").stat().st_size], seen

before, after, sizes, seen = asyncio.run(main()) if kind == "async" else main_sync()
print(json.dumps({"before": before, "after": after, "sizes": sizes, "seen": seen}))
"""


@pytest.mark.slow
@pytest.mark.timeout(RUN_SECONDS)
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_files_directories_and_output_of_any_size_take_little_memory(
    served: Server, tmp_path: Path, kind: str
) -> None:
    assert served.domain
    (tmp_path / "source").mkdir()
    with (tmp_path / "source" / "large").open("wb") as large:
        for _ in range(SIZE_MIB):
            large.write(os.urandom(1 << 20))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(SIZE_MIB), kind],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["sizes"] == [SIZE_MIB << 20]
    assert report["seen"] >= SIZE_MIB << (18 if kind == "async" else 20)
    print(
        f"{SIZE_MIB} MiB, {kind}: peak {report['before']} MiB before, {report['after']} MiB after"
    )
    growth = report["after"] - report["before"]
    assert growth < MOST_GROWTH_MIB, report
