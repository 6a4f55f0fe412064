// What Redis does for the limiter, each in one step and by its own clock: decide, correct, renew, and count the nodes.
// The arithmetic is that of core/store/memory/bucket.ts, in the same order, so that the same numbers come out of it.
import type { Reply } from '../redis/replies.ts'
import { Script } from '../redis/script.ts'

const answersNumber = { answers: (reply: Reply): boolean => typeof reply === 'number' }

// Times are microseconds, and numbers are doubles, as in JavaScript. What is taken of the rates of a set is one string:
// content, limit and time for each of rps, rpm and tpm; a limit of 0 was never there. It ends by itself when all have
// leaked out. Slots are a sorted set: their names, and when each ends.
const common = `
local second, minute = 1000000, 60000000
local windows = {second, minute, minute}
local form = '<ddddddddd'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- A table with an error where something else is in the key, which somebody else may need.
local function read(key)
  local kept = redis.pcall('GET', key)
  if type(kept) ~= 'string' or #kept == 72 then return kept end
  return redis.error_reply('WRONGTYPE A key of the limits has a text that is not theirs')
end

local function buckets(kept)
  if not kept then return {0, 0, now, 0, 0, now, 0, 0, now} end
  return {struct.unpack(form, kept)}
end

local function capacity(limit, window) return math.max(limit, 1) * window end

-- Whether the time of the bucket was ahead: what a clock that went back has left leaks out from now on.
local function leak(state, at)
  local passed = now - state[at + 2]
  state[at] = math.max(0, state[at] - math.max(0, passed) * state[at + 1])
  state[at + 2] = now
  return passed < 0
end

-- No clock but one that went back has left names that end later than a lease from now. They do so unless they are
-- renewed; the rest of very many is left to the next call.
local function cap(key, lease)
  local latest = string.format('%.17g', now + lease)
  local later = redis.call('ZRANGEBYSCORE', key, '(' .. latest, '+inf', 'LIMIT', 0, 1000)
  for _, name in ipairs(later) do redis.call('ZADD', key, latest, name) end
end

local function keep(key, state)
  local left = 0
  for at = 1, 7, 3 do
    local content, limit = state[at], state[at + 1]
    if limit > 0 and content > 0 then left = math.max(left, content / limit - (now - state[at + 2])) end
  end
  if left > 0 then redis.call('SET', key, struct.pack(form, unpack(state, 1, 9)), 'PX', math.ceil(left / 1000) + 1)
  else redis.call('DEL', key) end
end
`

/**
 * Takes everything or nothing; with `look` nothing.
 *
 * Keys: the rates of each set, and then the slots of each set that limits concurrency, unless no slot is asked for.
 * Arguments: `take` or `look`, tokens, the name of the slot (empty: none is asked for), the length of its lease, and
 * for each set `concurrency rps rpm tpm` with a `-` for what is not limited.
 * Answers doubles: 1 or 0 for admitted, the time, and for each set slots, rps, rpm and tpm: the content of the bucket.
 */
export const decide = new Script(
  `${common}
local take, tokens, slot, lease = ARGV[1] == 'take', tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local count = #ARGV - 4
local kept = {}
for i = 1, count do
  kept[i] = read(KEYS[i])
  if type(kept[i]) == 'table' then return kept[i] end
end
local admitted, slots = true, count
local limits, states, changed, leases = {}, {}, {}, {}
for i = 1, count do
  local concurrency, rps, rpm, tpm = string.match(ARGV[i + 4], '^(%S+) (%S+) (%S+) (%S+)$')
  local of, state = {tonumber(rps), tonumber(rpm), tonumber(tpm)}, buckets(kept[i])
  for name = 1, 3 do
    local limit, window, at = of[name], windows[name], name * 3 - 2
    if limit then
      local ahead = leak(state, at)
      if ahead or state[at + 1] ~= limit then changed[i] = kept[i] and true end
      state[at + 1] = limit
      local most = capacity(limit, window)
      state[at] = math.min(state[at], 2 * most)
      local asked = name < 3 and 1 or math.min(tokens, limit)
      if asked > 0 and state[at] + asked * window - most > 0 then admitted = false end
    end
  end
  leases[i] = 0
  if slot ~= '' and tonumber(concurrency) then
    slots = slots + 1
    leases[i] = redis.call('ZCOUNT', KEYS[slots], '(' .. string.format('%.17g', now), '+inf')
    if leases[i] >= tonumber(concurrency) then
      admitted = false
      cap(KEYS[slots], lease)
    end
  end
  limits[i], states[i] = of, state
end
slots = count
for i = 1, count do
  local of, state = limits[i], states[i]
  if take and admitted then
    for name = 1, 3 do
      local limit, at = of[name], name * 3 - 2
      if limit then state[at] = state[at] + (name < 3 and 1 or math.min(tokens, limit)) * windows[name] end
    end
    if slot ~= '' and string.sub(ARGV[i + 4], 1, 1) ~= '-' then
      slots = slots + 1
      local key = KEYS[slots]
      redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.17g', now))
      redis.call('ZADD', key, string.format('%.17g', now + lease), slot)
      redis.call('PEXPIRE', key, math.ceil(lease / 1000))
      leases[i] = leases[i] + 1
    end
  end
  -- A limit or a clock that has changed holds from now on, whatever is decided.
  if take and admitted or changed[i] then keep(KEYS[i], state) end
end
local answer = {admitted and 1 or 0, now}
for i = 1, count do
  local state = states[i]
  local at = i * 4 - 1
  answer[at], answer[at + 1], answer[at + 2], answer[at + 3] = leases[i], state[1], state[4], state[7]
end
return struct.pack('<' .. string.rep('d', #answer), unpack(answer))`,
  // Of the arguments all but four are of a set each.
  { answers: (reply, { args }) => Buffer.isBuffer(reply) && reply.length === 8 * (2 + 4 * (args.length - 4)) }
)

/**
 * Ends what a request has taken.
 *
 * Keys: the rates of each set whose tokens are corrected, and then the slots that it has.
 * Arguments: how many sets are corrected, the name of the slot, the tokens used, when they were taken, and for each set
 * to be corrected `expected level limit`: the tokens taken, the content of the bucket after that, and its limit then.
 */
export const release = new Script(
  `${common}
local count, slot, used, taken = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
-- A key that somebody else has written to keeps no other from being corrected or freed.
local answer = 0
for i = 1, count do
  local expected, level, limit = string.match(ARGV[i + 4], '^(%S+) (%S+) (%S+)$')
  expected, level = tonumber(expected), tonumber(level)
  local kept = read(KEYS[i])
  if type(kept) == 'table' then answer = kept
  else
    local state = buckets(kept)
    if state[8] == 0 then state[8] = tonumber(limit) end
    leak(state, 7)
    local left = math.min(expected * minute, math.max(0, level - math.max(0, now - taken) * state[8]))
    local change = math.max((used - expected) * minute, -left)
    state[7] = math.max(0, math.min(state[7] + change, 2 * capacity(state[8], minute)))
    keep(KEYS[i], state)
  end
end
for i = count + 1, #KEYS do
  local freed = redis.pcall('ZREM', KEYS[i], slot)
  if type(freed) == 'table' then answer = freed end
end
return answer`,
  answersNumber
)

/**
 * Renews slots, also those that Redis has lost or taken for dead: what runs, counts. It is in order, so that no slot is
 * there again that was released behind it.
 *
 * Keys: slots of sets. Arguments: the length of the lease, and for each key how many slots there are, and their names.
 */
export const renew = new Script(
  `${common}
local lease = tonumber(ARGV[1])
local ends = string.format('%.17g', now + lease)
local at, answer = 2, 0
for i = 1, #KEYS do
  local last = at + tonumber(ARGV[at])
  local members = {}
  for name = at + 1, last do
    members[#members + 1] = ends
    members[#members + 1] = ARGV[name]
  end
  -- As above.
  local renewed = redis.pcall('ZADD', KEYS[i], unpack(members))
  if type(renewed) == 'table' then answer = renewed
  else
    cap(KEYS[i], lease)
    redis.call('PEXPIRE', KEYS[i], math.ceil(lease / 1000))
  end
  at = last + 1
end
return answer`,
  { ...answersNumber, inOrder: true }
)

/**
 * Frees the slots of a node that is gone.
 *
 * Keys: slots of sets. Argument: what the names of its slots begin with.
 */
export const free = new Script(
  `local answer = 0
for i = 1, #KEYS do
  local names = redis.pcall('ZRANGE', KEYS[i], 0, -1)
  -- As above.
  if names.err then answer = names
  else
    for _, name in ipairs(names) do
      if string.sub(name, 1, #ARGV[1]) == ARGV[1] then redis.call('ZREM', KEYS[i], name) end
    end
  end
end
return answer`,
  answersNumber
)

/**
 * Says that a node lives, and counts those that do.
 *
 * Key: the nodes. Arguments: the name of the node, and for how long it is believed; 0 removes it.
 */
export const attend = new Script(
  `${common}
local lease = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.17g', now))
if lease == 0 then redis.call('ZREM', KEYS[1], ARGV[1])
else
  cap(KEYS[1], lease)
  redis.call('ZADD', KEYS[1], string.format('%.17g', now + lease), ARGV[1])
  redis.call('PEXPIRE', KEYS[1], math.ceil(lease / 1000))
end
return redis.call('ZCARD', KEYS[1])`,
  answersNumber
)
