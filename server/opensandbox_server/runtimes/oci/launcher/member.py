# SPDX-License-Identifier: Apache-2.0
"""One sandbox as the launcher holds it."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from opensandbox_server.runtimes.oci.launcher.records import Record


@dataclass(slots=True)
class Member:
    """One sandbox and, while it runs, a descriptor of its first process."""

    record: Record
    directory: Path
    pidfd: int = -1
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while it is ended: it may end by itself in the moment it is stopped."""

    def forget_process(self) -> None:
        """Close the descriptor."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def exit_code(self) -> int | None:
        """Reap the process when it is ours; as shells count, 128 + signal."""
        try:
            result = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return None
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else 128 + result.si_status
