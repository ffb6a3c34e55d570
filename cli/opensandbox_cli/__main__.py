# SPDX-License-Identifier: Apache-2.0
"""``python -m opensandbox_cli`` is the command line."""

from opensandbox_cli.main import main

if __name__ == "__main__":
    main()
