# SPDX-License-Identifier: Apache-2.0
"""Where ``osb`` and ``python -m opensandbox_cli`` begin.

Imports take longer than a Ctrl-C. Whoever presses it before there is anything to clean up gets no
traceback from the middle of them: the program ends at once.
"""

import os

try:
    import signal
except KeyboardInterrupt:
    raise SystemExit(130) from None


def main() -> None:
    """Do one command and exit. Commands that have something to end take over the signal."""
    # A shell makes programs in the background ignore it, and so they do.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    from opensandbox_cli.main import main as run

    run()


if __name__ == "__main__":
    main()
