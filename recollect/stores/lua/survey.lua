-- Counts of one shard's partitions. KEYS are the marker, then triples (metas, index, expiring); gives pairs
-- of layer and living records.
if emptied(KEYS[1]) then return redis.error_reply(EMPTIED) end
local counts, answer = {}, {}
for n = 2, #KEYS, 3 do
  METAS = KEYS[n]
  local index, expiring = KEYS[n + 1], KEYS[n + 2]
  for _, layer in ipairs(layers_here(index)) do
    local here = redis.call('ZLEXCOUNT', index, '[l:' .. layer .. ':', '(l:' .. layer .. ';')
    counts[layer] = (counts[layer] or 0) + here
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', expiring, '-inf', ARGV[2])) do
    local layer = string.match(row_of(id).place, '^[^:]*')
    counts[layer] = counts[layer] - 1
  end
end
for layer, count in pairs(counts) do
  answer[#answer + 1] = layer
  answer[#answer + 1] = count
end
return answer
