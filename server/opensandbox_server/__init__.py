# SPDX-License-Identifier: Apache-2.0
"""The control plane of OpenSandbox: decides what runs, for how long and with which limits."""

from opensandbox_server._version import __version__

__all__ = ["__version__"]
