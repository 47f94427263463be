#!lua flags=no-writes
-- What is in the cell KEYS[1], and how long it will be: {} or {record, pttl}. Read together, so that the time
-- belongs to the record; and allowed where writing is not, so that replays go on.
local pttl = redis.call('PTTL', KEYS[1])
if pttl == -2 then return {} end
return {redis.call('GET', KEYS[1]), pttl}
