# SPDX-License-Identifier: Apache-2.0
"""``python -m opensandbox_server`` is the command line."""

from opensandbox_server.cli import main

if __name__ == "__main__":
    main()
