# SPDX-License-Identifier: Apache-2.0
"""Where ``opensandbox-server`` and ``python -m opensandbox_server`` begin.

Imports take longer than a Ctrl-C. Whoever presses it before there is anything to clean up gets no
traceback from the middle of them: the program ends at once.
"""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` looks for modules in the current directory first, and a stranger may have filled
    # that: what comes out of a sandbox, say.
    del sys.path[0]

try:
    import signal
except KeyboardInterrupt:
    raise SystemExit(130) from None


def main() -> None:
    """Do what the command line says; see `ctrl_c.py` for the end of it."""
    # A shell makes programs in the background ignore it, and so they do.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    from opensandbox_server.cli import main as run

    run()


if __name__ == "__main__":
    main()
