# SPDX-License-Identifier: Apache-2.0
"""Who runs first when processors are short: the event loop, before the work it hands to others."""

from __future__ import annotations

import contextlib
import os


def run_before_others() -> None:
    """Let the calling thread run as soon as it is ready, where the kernel lets us say so.

    In a burst of creates dozens of processes want two processors, and a thread that waits for its
    share of them answers nobody. A higher nice value does not help: where the kernel schedules by
    session or by cgroup it counts only among one's own. Threads and programs that this thread
    starts get the ordinary priority again.
    """
    lowest = os.sched_param(os.sched_get_priority_min(os.SCHED_RR))
    with contextlib.suppress(PermissionError):  # no root, or an operator forbids it
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, lowest)
