# SPDX-License-Identifier: Apache-2.0
"""OpenSandbox from a shell: ``osb``. Everything it does goes through the Python client."""

from opensandbox_cli._version import __version__

__all__ = ["__version__"]
