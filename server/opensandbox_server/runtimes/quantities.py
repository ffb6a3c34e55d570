# SPDX-License-Identifier: Apache-2.0
"""Resource limits as clients write them: `500m`, `2`, `512Mi`, `2gb`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from opensandbox_server.errors import InvalidParameter
from opensandbox_server.runtimes.base import Resources

_CPU = re.compile(r"(\d+(?:\.\d+)?)(m?)", re.ASCII)
_BYTES = re.compile(
    r"(\d+(?:\.\d+)?)(b|k|kb|ki|m|mb|mi|g|gb|gi|t|tb|ti)?", re.ASCII | re.IGNORECASE
)
_POWERS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}
MOST = 1_000_000
"""More processes than a kernel has, and more devices than a machine."""
_MIN_MEMORY = 4 * 1024**2
_KNOWN = ("cpu", "memory", "disk", "ephemeral-storage", "pids", "gpu")


def parse_limits(limits: Mapping[str, str]) -> Resources:
    """Read resourceLimits. Raises InvalidParameter that names the key."""
    for key in limits:
        if key not in _KNOWN:
            raise InvalidParameter(f"resourceLimits.{key}: unknown; known are {', '.join(_KNOWN)}.")
    disk = limits.get("disk", limits.get("ephemeral-storage"))
    return Resources(
        cpus=parse_cpus(limits["cpu"]) if "cpu" in limits else None,
        memory_bytes=parse_bytes("memory", limits["memory"]) if "memory" in limits else None,
        pids=_parse_count("pids", limits["pids"]) if "pids" in limits else None,
        disk_bytes=parse_bytes("disk", disk) if disk is not None else None,
        gpus=_parse_gpus(limits["gpu"]) if "gpu" in limits else None,
    )


def parse_cpus(text: str) -> float:
    """Read `2`, `0.5` or `500m` as processors. Raises InvalidParameter."""
    match = _CPU.fullmatch(text.strip())
    cpus = float(match[1]) / (1000 if match[2] else 1) if match else 0.0
    if not 0.001 <= cpus <= 100_000:
        raise InvalidParameter(f"resourceLimits.cpu: {text!r} is not a number like 2, 0.5 or 500m.")
    return cpus


def parse_bytes(key: str, text: str) -> int:
    """Read `512Mi`, `2gb` or plain bytes; all units count in 1024s. Raises InvalidParameter."""
    match = _BYTES.fullmatch(text.strip())
    unit = (match[2] or "").lower()[:1] if match else ""
    size = math.floor(float(match[1]) * 1024 ** _POWERS[unit]) if match else 0
    if not _MIN_MEMORY <= size < 2**63:
        raise InvalidParameter(
            f"resourceLimits.{key}: {text!r} is not a size of at least 4Mi, like 512Mi or 2Gi."
        )
    return size


def _parse_gpus(text: str) -> str | None:
    """Read a number or `all`; 0 asks for none. Raises InvalidParameter."""
    asked = text.strip().lower()
    if asked in {"", "0"}:
        return None
    return asked if asked == "all" else str(_parse_count("gpu", asked))


def _parse_count(key: str, text: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit() or not 0 < int(text) <= MOST:
        raise InvalidParameter(f"resourceLimits.{key}: {text!r} is not a number from 1 to {MOST}.")
    return int(text)
