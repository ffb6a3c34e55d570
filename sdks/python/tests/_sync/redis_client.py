# SPDX-License-Identifier: Apache-2.0
"""Connects this side to a Redis of the tests."""

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sdks.python.tests.redis_server import RedisServer


def connect(server: RedisServer, *, is_text: bool) -> Any:
    """Return a client whose answers are text or bytes; the caller closes it."""
    return redis.Redis(
        unix_socket_path=str(server.socket),
        decode_responses=is_text,
        retry=Retry(NoBackoff(), 0),  # a server that is stopped does not come back
    )
