# SPDX-License-Identifier: Apache-2.0
"""Stores in Redis for client-side pools; needs the extra ``pool-redis``."""

from opensandbox._async.pool_redis import AsyncRedisPoolStateStore
from opensandbox._sync.pool_redis import RedisPoolStateStore

__all__ = ["AsyncRedisPoolStateStore", "RedisPoolStateStore"]
