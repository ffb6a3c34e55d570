# SPDX-License-Identifier: Apache-2.0
"""Remembers endpoints for a while, so that a port is not asked for again and again."""

import time
from collections import OrderedDict
from collections.abc import Callable

from opensandbox.config import ConnectionConfig, ConnectionConfigSync
from opensandbox.models.endpoints import SandboxEndpoint


class EndpointCache:
    """The endpoints of one sandbox by port; the least recently used one goes first."""

    def __init__(
        self,
        config: ConnectionConfig | ConnectionConfigSync,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Remember as long and as many as the configuration says."""
        self._ttl = config.endpoint_cache_ttl.total_seconds()
        self._size = 0 if config.endpoint_cache_disabled else config.endpoint_cache_size
        self._now = now
        self._entries: OrderedDict[int, tuple[float, SandboxEndpoint]] = OrderedDict()

    def get(self, port: int) -> SandboxEndpoint | None:
        """Return the endpoint of a port, if it is known and fresh."""
        expires_at, endpoint = self._entries.get(port, (0.0, None))
        if endpoint is None or expires_at <= self._now():
            self._entries.pop(port, None)
            return None
        self._entries.move_to_end(port)
        return endpoint

    def put(self, port: int, endpoint: SandboxEndpoint) -> None:
        """Remember the endpoint of a port."""
        self._entries[port] = (self._now() + self._ttl, endpoint)
        self._entries.move_to_end(port)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget everything: the sandbox is paused, resumed or gone."""
        self._entries.clear()
