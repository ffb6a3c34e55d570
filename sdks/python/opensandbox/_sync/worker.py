# SPDX-License-Identifier: Apache-2.0
"""How this side works on several things at once: threads. The other side has tasks."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class AutoResetEvent:
    """Wakes the one that waits for it; set while nobody waits, it wakes the next."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Wake the waiter."""
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Wait until it is set, but not longer than this."""
        self._event.wait(seconds)
        self._event.clear()


class Workers:
    """Jobs that run beside their starter. Whoever has them can wait for all of them."""

    def __init__(self, name: str) -> None:
        """Begin with no job; the name is that of the threads."""
        self._name = name
        self._jobs = 0
        self._changed = threading.Condition()

    def start(self, job: Callable[[], object]) -> None:
        """Run a job; what goes wrong in it is its own affair."""
        # A pool that nobody shut down must not keep the process alive: its sandboxes have an end.
        self._count(1)
        try:
            threading.Thread(target=self._run, args=(job,), name=self._name, daemon=True).start()
        except BaseException:
            self._count(-1)
            raise

    def wait(self, seconds: float) -> bool:
        """Wait until no job is left, those included that jobs start; False when time is over."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs, seconds)

    def take_part(self, job: Callable[[], T]) -> T:
        """Do a job here that counts as one of these."""
        self._count(1)
        try:
            return job()
        finally:
            self._count(-1)

    def _run(self, job: Callable[[], object]) -> None:
        try:
            job()
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._changed:
            self._jobs += change
            self._changed.notify_all()


def run_all(jobs: Sequence[Callable[[], None]]) -> None:
    """Do several jobs at once and return when all are done."""
    with ThreadPoolExecutor(max_workers=len(jobs)) as executor:
        for job in [executor.submit(job) for job in jobs]:
            job.result()


def unbroken(workers: Workers, job: Callable[[], T], undo: Callable[[T], None]) -> T:  # noqa: ARG001
    """Do a job to its end; a thread cannot be cancelled, so nothing is ever undone."""
    return workers.take_part(job)
