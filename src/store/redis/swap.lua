#!lua flags=allow-oom
-- One change of one cell: Cell::swap of the core, judged by the clock of Redis. Nothing is written before the
-- verdict, and the one write is the last thing done. It may exceed maxmemory: what a claim has begun must be
-- written down, while new claims (a plain SET) are refused.
--
-- KEYS 1 the cell
-- ARGV 1 expect: a(bsent) h(eld by) d(oubtful) o(ccupied)   2 that token   3 write: h(old) r(enew) c(omplete)
--      d(oubt) x (clear)   4 the record   5 its retention, ms   6 version byte and cell tag
-- Replies {'done'}, {'recreated'}, {'refused' [, record, pttl]}, {'unreadable', record, pttl}.
-- Offsets are those of idempotency/codec.rs, plus one.
local key, expect, token, write, record, retention, head =
  KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local function put(answer)
  if write == 'x' then
    redis.call('DEL', key)
  else
    redis.call('SET', key, record, 'PX', retention)
  end
  return {answer}
end

local pttl = redis.call('PTTL', key)
if pttl == -2 then
  if expect == 'a' and write == 'h' then return put('done') end
  if expect == 'h' and (write == 'r' or write == 'c' or write == 'd') then return put('recreated') end
  return {'refused'}
end

local there = redis.call('GETRANGE', key, 0, 121)
local state = string.sub(there, 2, 2)
if pttl < 0 or #there < 122 or string.sub(there, 1, 1) .. string.sub(there, 35, 50) ~= head
  or not (state == 'I' or state == 'C' or state == 'U') then
  return {'unreadable', redis.call('GET', key), pttl}
end

local idle = struct.unpack('>I8', there, 27) - pttl
local doubtful = state == 'U' or (state == 'I' and idle > struct.unpack('>I8', there, 19))
if string.sub(there, 3, 18) == token then
  if expect == 'h' then
    if write == 'r' and state == 'I' and not doubtful then return put('done') end
    if write == 'c' and state == 'C' then return {'done'} end
    if (write == 'c' or write == 'd' or write == 'x') and state ~= 'C' then return put('done') end
  elseif expect == 'd' then
    if write == 'd' and doubtful and state ~= 'U' then return put('done') end
    if (write == 'h' or write == 'c' or write == 'x') and doubtful then return put('done') end
  elseif expect == 'o' then
    if write == 'x' then return put('done') end
  end
end
return {'refused', redis.call('GET', key), pttl}
