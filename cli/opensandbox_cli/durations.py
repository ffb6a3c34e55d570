# SPDX-License-Identifier: Apache-2.0
"""Durations as people write them: ``10m``, ``1h30m``, ``90s``, or seconds."""

import re
from datetime import datetime, timedelta

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")


def parse_duration(text: str) -> timedelta:
    """Read a duration; what is none raises ValueError with an example."""
    written = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", written):
        seconds = float(written)
    elif _WHOLE.fullmatch(written):
        seconds = sum(float(count) * _UNITS[unit] for count, unit in _PARTS.findall(written))
    else:
        raise ValueError(f"{text!r} is not a duration; write 10m, 1h30m, 90s, or seconds")
    if seconds <= 0:
        raise ValueError("a duration must be longer than nothing")
    return timedelta(seconds=seconds)


def short(duration: timedelta) -> str:
    """Return a duration in one or two units, as tables show it."""
    seconds = max(0, int(duration.total_seconds()))
    for unit, below in (("d", "h"), ("h", "m"), ("m", "s")):
        size = _UNITS[unit]
        if seconds >= size:
            rest = seconds % size // _UNITS[below]
            return f"{seconds // size}{unit}" + (f"{rest}{below}" if rest else "")
    return f"{seconds}s"


def age(since: datetime | None, now: datetime) -> str:
    """Return how long ago something was."""
    return short(now - since) if since else ""


def left(until: datetime | None, now: datetime) -> str:
    """Return how much time is left; a sandbox without an end lives until it is killed."""
    return short(until - now) if until else "never"
