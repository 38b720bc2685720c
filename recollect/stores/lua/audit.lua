-- Whether the keys of a partition agree with each other; returns what does not.
if emptied(MARKER) then return redis.error_reply(EMPTIED) end
local wrong = {}
local function expect(holds, text)
  if not holds then wrong[#wrong + 1] = text end
end
local rows, bodies = redis.call('HLEN', METAS), redis.call('HLEN', RECORDS)
local newest = redis.call('ZREVRANGE', LOG, 0, 0, 'WITHSCORES')[2]
expect(bodies + redis.call('ZCARD', DROPPED) == rows, 'records without a body, or bodies without a record')
expect(redis.call('ZCARD', INDEX) == 2 * bodies, 'an index that does not match its records')
expect(redis.call('ZCARD', LOG) == rows, 'a log that does not match its records')
expect(redis.call('HLEN', ONCE) == redis.call('ZCARD', KEPT), 'remembered keys that do not match their times')
expect(tonumber(newest or 0) <= tonumber(redis.call('HGET', HEAD, 'revision') or 0),
  "records ahead of their partition's revision")
for _, id in ipairs(redis.call('SMEMBERS', OWN_JOBS)) do
  local kept = ARGV[2] .. ':' .. id
  expect(redis.call('HEXISTS', JOBS, kept) == 1 and redis.call('ZSCORE', DUE, kept), 'a job that is not queued')
end
return wrong
