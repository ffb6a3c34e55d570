# SPDX-License-Identifier: Apache-2.0
"""What a store in Redis does, as scripts that the server runs. Each gets all keys of the pool."""

KEYS = (
    "idle:list",
    "idle:expires",
    "lock",
    "maxIdle",
    "idleTtlMillis",
    "destroy:state",
    "destroy:owner",
)
"""Ids, oldest first; id to end of life; who fills the pool; and so on. Times in milliseconds."""

REFUSED = -1
"""What a write answers when the pool is being destroyed, or is."""

_NAMES = """
local list, expires, lock = KEYS[1], KEYS[2], KEYS[3]
local max_idle, idle_ttl = KEYS[4], KEYS[5]
local destroy_state, destroy_owner = KEYS[6], KEYS[7]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
"""
_UNLESS_DESTROYED = f"""
if redis.call('EXISTS', destroy_state) == 1 then return {REFUSED} end
"""
_DAY = 24 * 60 * 60 * 1000

TAKE_IDLE = f"""{_NAMES}
local answer = {{''}}
while true do
  local id = redis.call('LPOP', list)
  if not id then return answer end
  local ends = tonumber(redis.call('HGET', expires, id) or 0)
  redis.call('HDEL', expires, id)
  if ends > now + tonumber(ARGV[1]) then
    answer[1] = id
    return answer
  end
  if ends > now then answer[#answer + 1] = id end
end
"""

PUT_IDLE = f"""{_NAMES}{_UNLESS_DESTROYED}
local ttl = tonumber(redis.call('GET', idle_ttl) or {_DAY})
if redis.call('HSETNX', expires, ARGV[1], string.format('%d', now + ttl)) == 1 then
  redis.call('RPUSH', list, ARGV[1])
end
return 1
"""

REMOVE_IDLE = f"""{_NAMES}
redis.call('HDEL', expires, ARGV[1])
redis.call('LREM', list, 0, ARGV[1])
return 1
"""

ACQUIRE_LOCK = f"""{_NAMES}
if redis.call('EXISTS', destroy_state) == 1 then return 0 end
local owner = redis.call('GET', lock)
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', lock, ARGV[1], 'PX', ARGV[2])
return 1
"""

RENEW_LOCK = f"""{_NAMES}
if redis.call('EXISTS', destroy_state) == 1 then return 0 end
if redis.call('GET', lock) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', lock, ARGV[2])
"""

RELEASE_LOCK = f"""{_NAMES}
if redis.call('GET', lock) == ARGV[1] then redis.call('DEL', lock) end
return 1
"""

REAP_IDLE = f"""{_NAMES}
local alive = {{}}
for _, id in ipairs(redis.call('LRANGE', list, 0, -1)) do
  local ends = tonumber(redis.call('HGET', expires, id) or 0)
  if ends <= now + tonumber(ARGV[1]) then
    redis.call('LREM', list, 0, id)
    redis.call('HDEL', expires, id)
    if ends > now then alive[#alive + 1] = id end
  end
end
return alive
"""

COUNT_IDLE = f"""{_NAMES}
return redis.call('LLEN', list)
"""

LIST_IDLE = f"""{_NAMES}
local answer = {{}}
for _, id in ipairs(redis.call('LRANGE', list, 0, -1)) do
  local ends = redis.call('HGET', expires, id)
  if ends then
    answer[#answer + 1] = id
    answer[#answer + 1] = ends
  end
end
return answer
"""

GET_MAX_IDLE = f"""{_NAMES}
return redis.call('GET', max_idle)
"""

SET_MAX_IDLE = f"""{_NAMES}{_UNLESS_DESTROYED}
redis.call('SET', max_idle, ARGV[1])
return 1
"""

SET_IDLE_TTL = f"""{_NAMES}{_UNLESS_DESTROYED}
redis.call('SET', idle_ttl, ARGV[1])
return 1
"""

GET_DESTROY_STATE = f"""{_NAMES}
return redis.call('GET', destroy_state)
"""

BEGIN_DESTROY = f"""{_NAMES}
if redis.call('GET', destroy_state) == 'DESTROYED' then return {REFUSED} end
redis.call('SET', destroy_state, 'DESTROYING')
redis.call('SET', destroy_owner, ARGV[1])
redis.call('DEL', lock)
return 1
"""

CLEAR = f"""{_NAMES}
redis.call('DEL', list, expires, lock, max_idle, idle_ttl)
return 1
"""

MARK_DESTROYED = f"""{_NAMES}
redis.call('SET', destroy_state, 'DESTROYED')
redis.call('SET', destroy_owner, ARGV[1])
if tonumber(ARGV[2]) > 0 then
  redis.call('PEXPIRE', destroy_state, ARGV[2])
  redis.call('PEXPIRE', destroy_owner, ARGV[2])
end
return 1
"""
