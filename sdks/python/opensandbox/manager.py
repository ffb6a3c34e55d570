# SPDX-License-Identifier: Apache-2.0
"""Where programs written for the published client look for this name."""

from opensandbox._async.manager import SandboxManager

__all__ = ["SandboxManager"]
