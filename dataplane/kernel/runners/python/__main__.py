# SPDX-License-Identifier: Apache-2.0
"""Starts the parent of all Python contexts. Descriptor 3 is the daemon's; see kernel/python.go."""

import sys

sys.path[0:1] = []  # this directory, put there by the interpreter, is nobody else's business
CONTROL = 3
HERE = __file__.rpartition("/")[0]

if __name__ == "__main__":
    try:
        import IPython  # noqa: F401 - only whether it is there
    except ImportError:
        import os

        os.write(CONTROL, b"m")
        sys.exit(3)
    sys.path.insert(0, HERE)
    from opensandbox_kernel import parent

    sys.path.remove(HERE)
    parent.serve(CONTROL)
