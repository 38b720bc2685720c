-- One commit, all or nothing. Everything is checked before anything is written, in the order of the contract.
-- The answer is the revision that was reached, or the word for why it was refused.
if emptied(MARKER) then return redis.error_reply(EMPTIED) end

local now, oldest_key, key, digest, epoch = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local waits, name, member, veil = ARGV[7] == '1', ARGV[8], ARGV[9], ARGV[10]
local cursor = 16

local function parts(count, width)
  local list = {}
  for n = 1, tonumber(count) do
    local item = {}
    for place = 1, width do
      item[place] = ARGV[cursor]
      cursor = cursor + 1
    end
    list[n] = item
  end
  return list
end

local finish, needs = parts(ARGV[11], 2), parts(ARGV[12], 1)
local puts, drops, enqueue = parts(ARGV[13], 6), parts(ARGV[14], 1), parts(ARGV[15], 4)

if key ~= '' then
  local once = redis.call('HGET', ONCE, key)
  if once then
    local known, result, at = string.match(once, '^(%S+) (%d+) (%S+)$')
    if tonumber(at) > oldest_key then
      if known ~= digest then return 'key' end
      -- A replay writes nothing of its own, so replicas would have nothing to confirm. This gives them something.
      if waits then redis.call('HSET', ONCE, key, once) end
      return tonumber(result)
    end
  end
end

local head = redis.call('HMGET', HEAD, 'epoch', 'revision')
local current_epoch, revision = head[1] or '1', tonumber(head[2] or 0)
if epoch ~= '' and epoch ~= current_epoch then return 'epoch' end

for _, job in ipairs(finish) do
  local kept = redis.call('HGET', JOBS, name .. ':' .. job[1])
  if not kept or string.match(kept, '^%d+') ~= job[2] then return 'finish' end
end
for _, need in ipairs(needs) do
  if not lives(row_of(need[1]), now) then return 'needs' end
end

local written, dropped, next_revision = {}, {}, revision + 1
for place, put in ipairs(puts) do
  local id, version, put_digest = put[1], tonumber(put[2]), put[3]
  local old = row_of(id)
  local row = {id = id, digest = put_digest, place = put[4], expires_at = put[5], body = put[6], old = old}
  if lives(old, now) then
    if old.digest ~= put_digest then
      if old.version ~= version then return 'taken' end
      row.version, row.born = version + 1, old.born
      written[#written + 1] = row
    end
  else
    if version ~= 0 then return 'gone' end
    row.version, row.born = next_revision, string.format('%013d%02d', next_revision, place - 1)
    written[#written + 1] = row
  end
end
for _, drop in ipairs(drops) do
  local row = row_of(drop[1])
  if lives(row, now) then dropped[#dropped + 1] = row end
end
if #written > 0 or #dropped > 0 then revision = next_revision end

local function write_head()
  redis.call('HSET', HEAD, 'epoch', current_epoch, 'revision', whole(revision))
  if not head[1] then redis.call('ZADD', PARTITIONS, 0, member) end
end

local function bury(row)
  redis.call('HDEL', RECORDS, row.id)
  redis.call('ZREM', INDEX, entries(row))
  redis.call('ZREM', EXPIRING, row.id)
  local meta = {whole(row.version), whole(revision), row.born, 'd', ARGV[2], '-', row.place}
  redis.call('HSET', METAS, row.id, table.concat(meta, ' '))
  redis.call('ZADD', LOG, whole(revision), row.id)
  redis.call('ZADD', DROPPED, ARGV[2], row.id)
end

local function write(row)
  local old = row.old
  local moved = not old or old.dropped or old.born ~= row.born or old.place ~= row.place
  if old and old.dropped then
    redis.call('ZREM', DROPPED, row.id)
  elseif old and moved then
    redis.call('ZREM', INDEX, entries(old))
  end
  local meta = {whole(row.version), whole(revision), row.born, 'p', row.expires_at, row.digest, row.place}
  redis.call('HSET', METAS, row.id, table.concat(meta, ' '))
  redis.call('HSET', RECORDS, row.id, row.body)
  redis.call('ZADD', LOG, whole(revision), row.id)
  if moved then
    local in_layer, in_session = entries(row)
    redis.call('ZADD', INDEX, 0, in_layer, 0, in_session)
  end
  if row.expires_at ~= '-' then
    redis.call('ZADD', EXPIRING, row.expires_at, row.id)
  elseif old and old.dead_at then
    redis.call('ZREM', EXPIRING, row.id)
  end
end

-- A full server refuses the first write of a script that needs room, and no later one. So what adds begins
-- with such a write and is refused whole; what only removes begins by removing, and is let through.
local adds = #written > 0 or #enqueue > 0
if adds then write_head() end
if adds and veiled then rename(VEIL, PLAIN, veil, member) end
for _, row in ipairs(dropped) do bury(row) end
for _, job in ipairs(finish) do
  local kept = name .. ':' .. job[1]
  redis.call('HDEL', JOBS, kept)
  redis.call('ZREM', DUE, kept)
  redis.call('SREM', OWN_JOBS, job[1])
end
if not adds then write_head() end
for _, row in ipairs(written) do write(row) end
for _, job in ipairs(enqueue) do
  local kept = name .. ':' .. job[1]
  if redis.call('HSETNX', JOBS, kept, job[3] .. ' ' .. job[4]) == 1 then
    redis.call('ZADD', DUE, job[2], kept)
    redis.call('SADD', OWN_JOBS, job[1])
  end
end
if key ~= '' then
  redis.call('HSET', ONCE, key, table.concat({digest, whole(revision), ARGV[2]}, ' '))
  redis.call('ZADD', KEPT, ARGV[2], key)
end
return revision
