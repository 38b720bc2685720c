-- Take due jobs of one shard: each gets its next attempt and is hidden until the lease ends.
if emptied(KEYS[1]) then return redis.error_reply(EMPTIED) end
local answer = {}
for _, kept in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[2], 'LIMIT', 0, ARGV[4])) do
  local attempt, body = string.match(redis.call('HGET', KEYS[3], kept), '^(%d+) (.*)$')
  attempt = tonumber(attempt) + 1
  redis.call('HSET', KEYS[3], kept, whole(attempt) .. ' ' .. body)
  redis.call('ZADD', KEYS[2], ARGV[3], kept)
  answer[#answer + 1] = {kept, attempt, body}
end
return answer
