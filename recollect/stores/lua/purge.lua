-- Remove for good what died before a time, and raise the floor to the highest revision removed.
if emptied(MARKER) then return redis.error_reply(EMPTIED) end
local before, limit = '(' .. ARGV[2], tonumber(ARGV[3])
local floor, count = tonumber(redis.call('HGET', HEAD, 'floor') or 0), 0

for _, dead in ipairs({DROPPED, EXPIRING}) do
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', dead, '-inf', before, 'LIMIT', 0, limit - count)) do
    local row = row_of(id)
    redis.call('ZREM', dead, id)
    if row and not row.dropped then
      redis.call('HDEL', RECORDS, id)
      redis.call('ZREM', INDEX, entries(row))
    end
    redis.call('ZREM', LOG, id)
    redis.call('HDEL', METAS, id)
    floor, count = math.max(floor, row and row.revision or 0), count + 1
  end
end
if count > 0 then redis.call('HSET', HEAD, 'floor', whole(floor)) end

-- Keys are small; more of them go in one call.
local keys = redis.call('ZRANGEBYSCORE', KEPT, '-inf', before, 'LIMIT', 0, 5 * limit)
for first = 1, #keys, 1000 do
  local some = {unpack(keys, first, math.min(first + 999, #keys))}
  redis.call('HDEL', ONCE, unpack(some))
  redis.call('ZREM', KEPT, unpack(some))
end

local left, next_at = 0, false
for _, dated in ipairs({DROPPED, EXPIRING, KEPT}) do
  left = left + redis.call('ZCOUNT', dated, '-inf', before)
  local first = redis.call('ZRANGE', dated, 0, 0, 'WITHSCORES')[2]
  if first and (not next_at or tonumber(first) < tonumber(next_at)) then next_at = first end
end

-- An earlier version left the name of who was erased. Whoever came back since has a floor as high as their revision,
-- once all that they had is purged.
local epoch, revision = unpack(redis.call('HMGET', HEAD, 'epoch', 'revision'))
local was_erased = tonumber(epoch or 1) > 1 and floor < tonumber(revision)
if was_erased and not veiled and redis.call('EXISTS', METAS, OWN_JOBS) == 0 then
  rename(PLAIN, VEIL, ARGV[4], ARGV[5])
end
return {count, left, next_at}
