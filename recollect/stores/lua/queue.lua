-- How many jobs a shard holds, how many of them somebody works on, and when the oldest is or was due.
if emptied(KEYS[1]) then return redis.error_reply(EMPTIED) end
local running = 0
for _, kept in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[2], '+inf')) do
  if string.sub(redis.call('HGET', KEYS[3], kept), 1, 2) ~= '0 ' then running = running + 1 end
end
return {redis.call('ZCARD', KEYS[2]), running, redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or false}
