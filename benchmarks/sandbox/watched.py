# SPDX-License-Identifier: Apache-2.0
"""The server, with something on its event loop that notices when the loop comes late.

    python -m benchmarks.sandbox.watched FILE ARGUMENT…

Writes to FILE one line for each time the loop was late: by how many milliseconds, and for how many
of them its thread was ready to run but had no processor.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import uvloop

from opensandbox_server.cli import main

BEAT_SECONDS = 0.002
WORTH_TELLING_MS = 1.0


def watched(
    make_loop: Callable[[], asyncio.AbstractEventLoop], told: IO[str]
) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return a maker of loops that have a heartbeat."""

    def make() -> asyncio.AbstractEventLoop:
        loop = make_loop()
        statistics = Path("/proc/thread-self/schedstat").open()  # noqa: SIM115  # until the end
        last = (time.perf_counter(), 0.0)

        def without_processor() -> float:
            statistics.seek(0)
            return int(statistics.read().split()[1]) / 1e6

        def beat() -> None:
            nonlocal last
            now, starved = time.perf_counter(), without_processor()
            late = (now - last[0] - BEAT_SECONDS) * 1000
            if late > WORTH_TELLING_MS:
                told.write(f"{late:.3f} {min(late, starved - last[1]):.3f}\n")
            last = (now, starved)
            loop.call_later(BEAT_SECONDS, beat)

        loop.call_soon(beat)
        return loop

    return make


if __name__ == "__main__":
    file = Path(sys.argv[1]).open("a", buffering=1)  # noqa: SIM115  # until the end
    uvloop.new_event_loop = watched(uvloop.new_event_loop, file)  # type: ignore[assignment]
    main(sys.argv[2:])
