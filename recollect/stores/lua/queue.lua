-- How many jobs of a shard wait, somebody works on, are for later; and when the oldest is or was due.
if emptied(KEYS[1]) then return redis.error_reply(EMPTIED) end
local running, scheduled = 0, 0
for _, kept in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[2], '+inf')) do
  local is_new = string.sub(redis.call('HGET', KEYS[3], kept), 1, 2) == '0 '
  if is_new then scheduled = scheduled + 1 else running = running + 1 end
end
local waiting = redis.call('ZCARD', KEYS[2]) - running - scheduled
return {waiting, running, scheduled, redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or false}
