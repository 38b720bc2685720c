-- A block in order of birth: one walk along the index for each layer, merged. Gives the living rows of the
-- block that have a trace of every group, and the birth it ends with where more may follow.
if emptied(MARKER) then return redis.error_reply(EMPTIED) end
local now, session, low, high, newest_first = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1'
local count, cursor = tonumber(ARGV[7]), 8

local function next_texts()
  local texts = {}
  for n = 1, tonumber(ARGV[cursor]) do texts[n] = ARGV[cursor + n] end
  cursor = cursor + 1 + #texts
  return texts
end

local layers, groups = next_texts(), {}
while cursor <= #ARGV do groups[#groups + 1] = next_texts() end
if #layers == 0 then layers = layers_here(INDEX) end

local found = {}
for _, layer in ipairs(layers) do
  local list = session == '*' and 'l:' .. layer or 's:' .. layer .. ':' .. session
  -- ';' comes right after ':', so 'list;' is just beyond the list and 'born;' just beyond that birth.
  local from = low == '' and '[' .. list .. ':' or '[' .. list .. ':' .. low .. ';'
  local to = high == '' and '(' .. list .. ';' or '(' .. list .. ':' .. high
  local members
  if newest_first then
    members = redis.call('ZREVRANGEBYLEX', INDEX, to, from, 'LIMIT', 0, count + 1)
  else
    members = redis.call('ZRANGEBYLEX', INDEX, from, to, 'LIMIT', 0, count + 1)
  end
  local at = #list + 2
  for _, member in ipairs(members) do
    found[#found + 1] = {string.sub(member, at, at + 14), string.sub(member, at + 16)}
  end
end
table.sort(found, function(one, other)
  if newest_first then return one[1] > other[1] end
  return one[1] < other[1]
end)
local ids = {}
for n = 1, math.min(count, #found) do ids[n] = found[n][2] end
return {told(ids, now, groups), #found > count and found[count][1] or ''}
