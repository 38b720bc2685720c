-- An erased partition keeps its head, and the hashes of remembered keys, under a name that does not tell whose it was.
local PLAIN = {HEAD, ONCE, KEPT}
local VEIL = {VEILED_HEAD, VEILED_ONCE, VEILED_KEPT}
local veiled = redis.call('EXISTS', HEAD) == 0 and redis.call('EXISTS', VEILED_HEAD) == 1
if veiled then HEAD, ONCE, KEPT = VEILED_HEAD, VEILED_ONCE, VEILED_KEPT end

-- Give a partition its other name, in its keys and in the list of partitions.
local function rename(from, to, member, new_member)
  if VEILED_HEAD == PLAIN[1] then return end
  for n, key in ipairs(from) do
    if redis.call('EXISTS', key) == 1 then redis.call('RENAME', key, to[n]) end
  end
  redis.call('ZREM', PARTITIONS, member)
  redis.call('ZADD', PARTITIONS, 0, new_member)
  HEAD, ONCE, KEPT = to[1], to[2], to[3]
end
