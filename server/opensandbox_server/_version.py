# SPDX-License-Identifier: Apache-2.0
"""The version of the server; the whole repository has one."""

__version__ = "0.1.0"
