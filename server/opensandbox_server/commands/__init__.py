# SPDX-License-Identifier: Apache-2.0
"""What `opensandbox-server` does besides serving; cli.py reads the command line."""
