# SPDX-License-Identifier: Apache-2.0
"""The daemon's runner for Python: a warmed parent, and a shell in each context forked from it."""
