# SPDX-License-Identifier: Apache-2.0
"""The version of this package; the whole repository has one."""

__version__ = "0.1.0"
