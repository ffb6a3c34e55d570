# SPDX-License-Identifier: Apache-2.0
"""How fast a pool fills up: decided from plain numbers."""

from dataclasses import dataclass, field

FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 30.0
_WINDOW_SECONDS = 1.0


@dataclass
class Pace:
    """Counts what a pool starts and what fails, and says how much more it may start now."""

    per_second: int
    at_once: int
    degraded_threshold: int
    failure_count: int = 0
    """Failures since the last success."""
    last_error: str | None = None
    _window_start: float = field(default=float("-inf"), repr=False)
    _started: int = field(default=0, repr=False)
    _quiet_until: float = field(default=float("-inf"), repr=False)

    @property
    def is_degraded(self) -> bool:
        """Whether so much failed in a row that only one is tried at a time."""
        return self.failure_count >= self.degraded_threshold

    def is_backing_off(self, now: float) -> bool:
        """Whether nothing at all is tried now."""
        return now < self._quiet_until

    def start(self, missing: int, running: int, now: float) -> int:
        """Return how many of the missing ones may be started now, and count them as started."""
        if self.is_backing_off(now):
            return 0
        if now - self._window_start >= _WINDOW_SECONDS:
            self._window_start, self._started = now, 0
        at_once = 1 if self.is_degraded else self.at_once
        allowed = min(missing, at_once - running, self.per_second - self._started)
        self._started += max(allowed, 0)
        return max(allowed, 0)

    def succeed(self) -> None:
        """Note that one was made: all is well again."""
        self.failure_count = 0
        self.last_error = None
        self._quiet_until = float("-inf")

    def fail(self, error: str, now: float) -> None:
        """Note that one was not made."""
        self.failure_count += 1
        self.last_error = error
        if self.is_degraded:
            doublings = min(self.failure_count - self.degraded_threshold, 10)
            pause = min(FIRST_BACKOFF_SECONDS * 2.0**doublings, MAX_BACKOFF_SECONDS)
            self._quiet_until = now + pause
