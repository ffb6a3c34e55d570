# SPDX-License-Identifier: Apache-2.0
"""The client for callers that do not await."""

from opensandbox._sync.manager import SandboxManagerSync
from opensandbox._sync.pool import SandboxPoolSync
from opensandbox._sync.sandbox import SandboxSync

__all__ = ["SandboxManagerSync", "SandboxPoolSync", "SandboxSync"]
