-- The head, and what was put or dropped after a mark: one row more than asked for, if there is more.
if emptied(MARKER) then return redis.error_reply(EMPTIED) end
local head = redis.call('HMGET', HEAD, 'epoch', 'revision', 'floor')
local epoch, revision, floor = tonumber(head[1] or 1), tonumber(head[2] or 0), tonumber(head[3] or 0)
local from = tonumber(ARGV[3])
-- A mark ahead of the head is of a time that the server has lost.
local stale = tonumber(ARGV[2]) ~= epoch or floor > math.max(from, tonumber(ARGV[4])) or from > revision
if stale then from = 0 end
local ids = {}
if from < revision then
  ids = redis.call('ZRANGEBYSCORE', LOG, '(' .. whole(from), '+inf', 'LIMIT', 0, tonumber(ARGV[5]) + 1)
end
return {epoch, revision, floor, stale and 1 or 0, told(ids)}
