-- The living among these ids, in the order asked.
if emptied(MARKER) then return redis.error_reply(EMPTIED) end
local ids = {}
for n = 3, #ARGV do ids[n - 2] = ARGV[n] end
return told(ids, tonumber(ARGV[2]))
