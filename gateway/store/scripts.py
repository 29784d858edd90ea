"""Hold what runs within Redis: short scripts, each of which is atomic.

Every value is ``<time> <rest>``: the microseconds at which it ends, then what was kept. Redis forgets a key a little
later. So one clock, that of the server, decides everywhere, and the clocks of the replicas do not matter.

A value of another form or type, such as one of another version of the gateway, counts as none, and may be replaced.
"""

from typing import Final

SERVER_TIME: Final = "(function() local t = redis.call('TIME') return t[1] * 1e6 + t[2] end)()"
"""Lua for the microseconds of now."""

_HEAD: Final = """
local now = tonumber(%s)
local function current(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then return nil end
  local space = string.find(value, ' ', 1, true) or 1
  local ends = tonumber(string.sub(value, 1, space - 1))
  if not ends or ends <= now then return nil end
  return string.sub(value, space + 1)
end
local function keep(key, micros, rest)
  if micros == 0 then return redis.call('DEL', key) end
  local value = string.format('%%.0f', now + micros) .. ' ' .. rest
  redis.call('SET', key, value, 'PX', math.ceil(micros / 1000) + 10000)
end
"""

READ: Final = f"{_HEAD}return current(KEYS[1])"

# rest, when it is written ("always", "new": where nothing is kept, "same": where it is kept), and micros for each key.
# Returns how many were written.
WRITE: Final = f"""{_HEAD}
local rest, when, written = ARGV[1], ARGV[2], 0
for number, key in ipairs(KEYS) do
  local there = when ~= 'always' and current(key)
  if when == 'always' or (when == 'new' and not there) or (when == 'same' and there == rest) then
    keep(key, tonumber(ARGV[number + 2]), rest)
    written = written + 1
  end
end
return written
"""

_PERMITS: Final = """
local now = tonumber(%s)
local function spent_of(key)
  local value = redis.pcall('GET', key)
  return type(value) == 'string' and tonumber(value) or now
end
local function spend(key, spent)
  if spent <= now then return redis.call('DEL', key) end
  redis.call('SET', key, string.format('%%.17g', spent), 'PX', math.ceil((spent - now) / 1000) + 10000)
end
"""

# The generic cell rate algorithm. Micros for one permit, the burst, which part of the permits that are free may be
# taken, at most of the burst, and how many are given back first. Returns how many were taken, and the micros until the
# burst is whole.
TAKE: Final = f"""{_PERMITS}
local interval, burst, share = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local span = burst * interval
local kept = spent_of(KEYS[1])
local spent = math.max(math.min(kept, now + span) - tonumber(ARGV[4]) * interval, now)
local free = math.floor((now + span - spent + 1) / interval)
local taken = 0
if free >= 1 then
  taken = math.max(1, math.min(math.floor(burst / share), math.ceil(free / share)))
  spent = spent + taken * interval
end
if spent ~= kept then spend(KEYS[1], spent) end
return {{taken, math.ceil(spent - now)}}
"""

# Permits that were not used, as micros for each key
GIVE_BACK: Final = f"""{_PERMITS}
for number, key in ipairs(KEYS) do spend(key, spent_of(key) - tonumber(ARGV[number])) end
"""

# A replica says that it is there: its name, and the micros after which one that is silent is gone. The notice to itself
# shows that notices arrive. Returns how many replicas there are.
BEAT: Final = """
local now = tonumber(%s)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], 60000)
redis.call('PUBLISH', KEYS[2], ARGV[1])
return redis.call('ZCARD', KEYS[1])
"""
