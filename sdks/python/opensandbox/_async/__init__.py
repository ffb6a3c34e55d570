# SPDX-License-Identifier: Apache-2.0
"""The client, written once. `scripts/unasync.py` makes the folder beside it from this one."""
