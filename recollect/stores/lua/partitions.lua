-- Partitions of a shard after one of them, in order.
if emptied(KEYS[1]) then return redis.error_reply(EMPTIED) end
return redis.call('ZRANGEBYLEX', KEYS[2], ARGV[2], '+', 'LIMIT', 0, ARGV[3])
