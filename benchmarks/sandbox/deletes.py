# SPDX-License-Identifier: Apache-2.0
"""How long a pause takes while sandboxes with many files are being deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx

from benchmarks.sandbox.measure import LIFE, SETTLE_SECONDS, RawResult
from benchmarks.sandbox.server import API_KEY, Server
from opensandbox import SandboxSync
from opensandbox.models.execd import RunCommandOpts

DELETED_AT_ONCE = 4
FILL_TIME = timedelta(minutes=5)


def measure_deletes(server: Server, image: str, rounds: int, files: int) -> RawResult:
    """Pause one sandbox again and again, first quietly and then while four others are deleted."""
    result = RawResult(name="pause_during_deletes_vs_quiet", unit="ms", ours=[], other=[])
    paused = SandboxSync.create(image, connection_config=server.sync_config, timeout=LIFE)
    try:
        for _ in range(rounds):
            full = [_full_sandbox(server, image, files) for _ in range(DELETED_AT_ONCE)]
            time.sleep(SETTLE_SECONDS)
            while_deleted = list(_pauses_during_deletes(server, paused.id, full))
            result["ours"] += while_deleted
            while list((server.data_dir / "trash").iterdir()):
                time.sleep(SETTLE_SECONDS)
            result["other"] += [_pause(server, paused.id) for _ in while_deleted]
    finally:
        paused.destroy()
    return result


def _full_sandbox(server: Server, image: str, files: int) -> SandboxSync:
    sandbox = SandboxSync.create(image, connection_config=server.sync_config, timeout=LIFE)
    many = f"mkdir /many && cd /many && seq {files} | xargs touch"
    sandbox.commands.run(many, opts=RunCommandOpts(timeout=FILL_TIME))
    return sandbox


def _pauses_during_deletes(server: Server, paused: str, full: list[SandboxSync]) -> Iterator[float]:
    """Yield what each pause took until the files of all deleted sandboxes are gone."""
    trash = server.data_dir / "trash"
    with ThreadPoolExecutor(DELETED_AT_ONCE) as threads:
        deletes = [threads.submit(sandbox.destroy) for sandbox in full]
        while not all(delete.done() for delete in deletes) or list(trash.iterdir()):
            yield _pause(server, paused)
        for delete in deletes:
            delete.result()


def _pause(server: Server, sandbox_id: str) -> float:
    url = f"http://{server.domain}/v1/sandboxes/{sandbox_id}"
    with httpx.Client(headers={"OPEN-SANDBOX-API-KEY": API_KEY}, timeout=120) as client:
        client.get(url).raise_for_status()  # connect first
        began = time.perf_counter()
        client.post(f"{url}/pause").raise_for_status()
        took = (time.perf_counter() - began) * 1000
        client.post(f"{url}/resume").raise_for_status()
    return took
