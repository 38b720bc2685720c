-- When the jobs of some shards fall due: the first ones of each, nothing taken. KEYS are pairs (marker, due).
local answer = {}
for n = 1, #KEYS, 2 do
  if emptied(KEYS[n]) then return redis.error_reply(EMPTIED) end
  local due = redis.call('ZRANGEBYSCORE', KEYS[n + 1], '-inf', ARGV[2], 'WITHSCORES', 'LIMIT', 0, ARGV[3])
  local times = {}
  for place = 2, #due, 2 do times[#times + 1] = due[place] end
  answer[#answer + 1] = times
end
return answer
