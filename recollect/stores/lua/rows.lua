-- What stands in the keys of a partition, in the order in which Python declares them.
local MARKER, HEAD, METAS, RECORDS, INDEX, LOG = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local VEILED_HEAD, EXPIRING, DROPPED, ONCE, KEPT = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local OWN_JOBS, DUE, JOBS, PARTITIONS = KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local VEILED_ONCE, VEILED_KEPT = KEYS[16], KEYS[17]

-- A meta is "version revision born state dead_at digest layer:session"; `state` is p (put) or d (dropped).
local META = '^(%d+) (%d+) (%d+) (%a) (%S+) (%S+) (%S*)$'

local function row_from(id, text)
  if not text then return nil end
  local version, revision, born, state, dead_at, digest, place = string.match(text, META)
  return {
    id = id, version = tonumber(version), revision = tonumber(revision), born = born, dropped = state == 'd',
    dead_at = tonumber(dead_at), digest = digest, place = place,
  }
end

local function row_of(id)
  return row_from(id, redis.call('HGET', METAS, id))
end

local function lives(row, now)
  return row and not row.dropped and (not row.dead_at or row.dead_at > now)
end

-- The same of a meta that is needed for nothing else.
local function is_alive(meta, now)
  local state, dead_at = string.match(meta, '^%d+ %d+ %d+ (%a) (%S+)')
  return state == 'p' and (dead_at == '-' or tonumber(dead_at) > now)
end

-- Whether a body has a text of each of these groups in it.
local function has_traces(body, groups)
  for _, texts in ipairs(groups) do
    local found = false
    for _, text in ipairs(texts) do found = found or string.find(body, text, 1, true) end
    if not found then return false end
  end
  return true
end

-- Rows of these ids in this order, as Python reads them: each as one text, since a reader takes longer for each part of
-- an answer than for what is in it. With `now`: the living alone; with groups of texts: those whose body may be of a
-- record that is meant.
local function told(ids, now, groups)
  local found, names, answer = {}, {}, {}
  if #ids == 0 then return answer end
  local metas = redis.call('HMGET', METAS, unpack(ids))
  for place, id in ipairs(ids) do
    local meta = metas[place]
    if meta and (not now or is_alive(meta, now)) then
      found[#found + 1], names[#names + 1] = meta, id
    end
  end
  if #names == 0 then return answer end
  local bodies = redis.call('HMGET', RECORDS, unpack(names))
  for n, meta in ipairs(found) do
    local id, body = names[n], bodies[n]
    if not body then
      answer[#answer + 1] = meta .. ' - ' .. #id .. ' ' .. id
    elseif not groups or has_traces(body, groups) then
      answer[#answer + 1] = meta .. ' b ' .. #id .. ' ' .. id .. body
    end
  end
  return answer
end

-- A record that is not dropped stands in the index twice: in its layer, and in its session of that layer.
local function entries(row)
  local tail = ':' .. row.born .. ':' .. row.id
  return 'l:' .. string.match(row.place, '^[^:]*') .. tail, 's:' .. row.place .. tail
end

local function layers_here(index)
  local layers, from = {}, '[l:'
  while true do
    local first = redis.call('ZRANGEBYLEX', index, from, '(l;', 'LIMIT', 0, 1)[1]
    if not first then return layers end
    local layer = string.match(first, '^l:([^:]*)')
    layers[#layers + 1] = layer
    from = '[l:' .. layer .. ';'
  end
end
