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
  local value = string.format('%%.0f', now + micros) .. ' ' .. rest
  redis.call('SET', key, value, 'PX', math.ceil(micros / 1000) + 10000)
end
"""

READ: Final = f"{_HEAD}return current(KEYS[1])"

# micros, rest, and 1 where a value that is there stays
WRITE: Final = f"""{_HEAD}
if ARGV[3] == '1' and current(KEYS[1]) then return 0 end
keep(KEYS[1], tonumber(ARGV[1]), ARGV[2])
return 1
"""

# micros for each key; a value that is there stays
MARK: Final = f"""{_HEAD}
for number, key in ipairs(KEYS) do
  if not current(key) then keep(key, tonumber(ARGV[number]), '') end
end
"""

# micros, rest: a value that is another one, or has ended, stays as it is
RENEW: Final = f"""{_HEAD}
if current(KEYS[1]) == ARGV[2] then keep(KEYS[1], tonumber(ARGV[1]), ARGV[2]) end
"""

# rest
REMOVE: Final = f"""{_HEAD}
if current(KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""

# The generic cell rate algorithm. Micros for one permit, the burst, how many permits are wanted, which part of those
# that are free may be taken, at most of the burst, and how many are given back first. Returns how many were taken, and
# the micros until the burst is whole.
TAKE: Final = """
local now = tonumber(%s)
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local wanted, share = tonumber(ARGV[3]), tonumber(ARGV[4])
local span = burst * interval
local value = redis.pcall('GET', KEYS[1])
local kept = type(value) == 'string' and tonumber(value) or now
local spent = math.max(math.min(kept, now + span) - tonumber(ARGV[5]) * interval, now)
local free = math.floor((now + span - spent + 1) / interval)
local taken = 0
if free >= wanted then
  taken = math.max(wanted, math.min(math.floor(burst / share), math.ceil(free / share)))
  spent = spent + taken * interval
end
if spent > now and spent ~= kept then
  redis.call('SET', KEYS[1], string.format('%%.17g', spent), 'PX', math.ceil((spent - now) / 1000) + 10000)
end
return {taken, math.ceil(spent - now)}
"""

# Permits that were not used, as micros for each key
GIVE_BACK: Final = """
local now = tonumber(%s)
for number, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  local spent = (type(value) == 'string' and tonumber(value) or now) - tonumber(ARGV[number])
  if spent > now then
    redis.call('SET', key, string.format('%%.17g', spent), 'PX', math.ceil((spent - now) / 1000) + 10000)
  else
    redis.call('DEL', key)
  end
end
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
