-- Forget a whole partition: everything but its head and the hashes of remembered keys is let go of at once,
-- and these go under their veil.
if emptied(MARKER) then return redis.error_reply(EMPTIED) end
local head = redis.call('HMGET', HEAD, 'epoch', 'revision')
local epoch, revision = tonumber(head[1] or 1), tonumber(head[2] or 0)
if ARGV[2] ~= '' and tonumber(ARGV[2]) ~= epoch then return {0, tonumber(ARGV[2])} end
local living = redis.call('ZLEXCOUNT', INDEX, '[l:', '(l;') - redis.call('ZCOUNT', EXPIRING, '-inf', ARGV[3])
for _, id in ipairs(redis.call('SMEMBERS', OWN_JOBS)) do
  local kept = ARGV[4] .. ':' .. id
  redis.call('HDEL', JOBS, kept)
  redis.call('ZREM', DUE, kept)
end
-- The data goes first: a full server lets a script remove, and what has removed may then write the head.
redis.call('UNLINK', METAS, RECORDS, INDEX, LOG, EXPIRING, DROPPED, OWN_JOBS)
redis.call('HSET', HEAD, 'epoch', whole(epoch + 1), 'revision', whole(revision + 1))
if veiled then
  redis.call('ZADD', PARTITIONS, 0, ARGV[6])
else
  rename(PLAIN, VEIL, ARGV[5], ARGV[6])
end
return {living, epoch}
