# SPDX-License-Identifier: Apache-2.0
"""Start programs without forking the server: posix_spawn, and a pidfd that tells when they end.

A fork copies the page tables of a large Python heap and stalls the event loop for tens of
milliseconds; asyncio and uvloop both fork. posix_spawn borrows them and takes about one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Child:
    """A process whose end can be awaited. Also one that a former server started: see adopt."""

    pid: int
    pidfd: int
    _ended: asyncio.Future[int | None] = field(repr=False)

    @property
    def has_ended(self) -> bool:
        """True once the process is gone."""
        return self._ended.done()

    async def wait(self) -> int | None:
        """Wait for the end; the exit status, -N for signal N, None for a foster child."""
        return await asyncio.shield(self._ended)

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when the process is gone."""
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    async def end(self, grace: float) -> int | None:
        """Terminate, give it grace seconds, then kill; returns when it is gone."""
        self.send(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                return await self.wait()
        self.send(signal.SIGKILL)
        return await self.wait()

    def when_ended(self, tell: Callable[[int | None], None]) -> None:
        """Call tell with the exit status once the process is gone."""
        self._ended.add_done_callback(lambda end: None if end.cancelled() else tell(end.result()))

    def forget(self) -> None:
        """Stop looking at a process that shall outlive the server."""
        if not self.has_ended:
            asyncio.get_running_loop().remove_reader(self.pidfd)
            self._ended.cancel()
            os.close(self.pidfd)

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self.pidfd)
        self._ended.set_result(_exit_status(self.pidfd))
        os.close(self.pidfd)


def spawn(
    argv: Sequence[str | Path],
    env: Mapping[str, str],
    *,
    fds: Mapping[int, int] | None = None,
    has_own_session: bool = False,
) -> Child:
    """Start argv. The child gets exactly the descriptors in fds (its number → ours) besides 0-2."""
    words = [str(word) for word in argv]
    pid = os.posix_spawn(
        words[0],
        words,
        dict(env),
        file_actions=_descriptor_moves(fds or {}),
        setsid=has_own_session,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGXFSZ],
    )
    try:
        return adopt(pid)
    except BaseException:  # no descriptor was left to watch it with
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _descriptor_moves(fds: Mapping[int, int]) -> list[tuple[int, int, int] | tuple[int, int]]:
    # Every source is first moved to a number that is neither source nor target: no move may
    # overwrite the source of a later one.
    taken = {*fds.keys(), *fds.values()}
    spare = (number for number in itertools.count(3) if number not in taken)
    moved = dict(zip(fds, spare, strict=False))
    return [
        *((os.POSIX_SPAWN_DUP2, fds[target], high) for target, high in moved.items()),
        *((os.POSIX_SPAWN_DUP2, high, target) for target, high in moved.items()),
        *((os.POSIX_SPAWN_CLOSE, high) for high in moved.values()),
    ]


def adopt(pid: int) -> Child:
    """Look after a process that runs already. Raises ProcessLookupError when there is none."""
    loop = asyncio.get_running_loop()
    child = Child(pid, os.pidfd_open(pid), loop.create_future())
    loop.add_reader(child.pidfd, child._reap, loop)
    return child


def _exit_status(pidfd: int) -> int | None:
    try:
        result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    except ChildProcessError:
        return None
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
