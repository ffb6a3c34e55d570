# SPDX-License-Identifier: Apache-2.0
"""The interpreter for callers that do not await, made by scripts/unasync.py."""
