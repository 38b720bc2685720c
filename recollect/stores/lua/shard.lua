-- Every script begins with this. A shard carries the generation of the store; when the marker is gone or
-- another one, the server was emptied, and what it says is not "no memories" but "lost".
local EMPTIED = 'EMPTIED the server does not hold what was opened'
local generation = ARGV[1]

local function emptied(marker)
  return redis.call('GET', marker) ~= generation
end

-- Numbers are written as whole numbers: `..` would round them to 14 digits.
local function whole(number)
  return string.format('%d', number)
end
