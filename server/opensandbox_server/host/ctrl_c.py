# SPDX-License-Identifier: Apache-2.0
"""What Ctrl-C does while there is something to clean up; else it ends the program at once."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def unwinding_on_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt within the block."""
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
