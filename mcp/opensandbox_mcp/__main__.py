# SPDX-License-Identifier: Apache-2.0
"""``python -m opensandbox_mcp`` is the command line."""

from opensandbox_mcp.cli import main

if __name__ == "__main__":
    main()
