# SPDX-License-Identifier: Apache-2.0
"""How requests are tried again: the policy, and the httpx transports that follow it."""

from opensandbox._async.retry import RetryAsyncTransport
from opensandbox._retry import JitterMode, RetryCause, RetryEvent, RetryPolicy
from opensandbox._sync.retry import RetrySyncTransport

__all__ = [
    "JitterMode",
    "RetryAsyncTransport",
    "RetryCause",
    "RetryEvent",
    "RetryPolicy",
    "RetrySyncTransport",
]
