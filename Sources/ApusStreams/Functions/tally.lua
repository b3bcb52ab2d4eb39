-- Counts what an app reported of a notification, once for each id, and acknowledges it: both or neither. Apps name the send themselves:
-- of those that are not known here (direct sends, or inventions) only so many of each app are begun to be counted in an hour.
-- KEYS: 1 {q}events, 2 {q}tally:<app>:<send>
-- ARGV: 1 group, 2 consumer, 3 entry, 4 "<provider>/<kind>", 5 digest of the event's id as a whole number (so that few of them are an
--       intset: 8 bytes each), 6 which of the sets of ids, 7 ids that one set may hold, 8 ms to keep what was counted after the last event
-- Returns: {'counted'} · {'known'} (that id was counted) · {'full'} (not counted; acknowledged) · {'lost'} (another owns the entry)
local UNKNOWN_TALLIES_MAX = 5000 -- of an app in a shard in an hour
local HOUR_MS = 3600 * 1000

local function begins_tally(tally)
    local tag = tag_of(tally)
    local app, send = string.match(tally, '^%b{}tally:([^:]*):(.*)$')
    if redis.call('EXISTS', tally) == 1 or redis.call('EXISTS', tag .. 'send:' .. send) == 1 then
        return true
    end
    local begun = tag .. 'tallies:' .. app .. ':' .. digits(math.floor(now_ms() / HOUR_MS))
    if tonumber(redis.call('GET', begun) or '0') >= UNKNOWN_TALLIES_MAX then
        return false
    end
    redis.call('INCR', begun)
    redis.call('PEXPIRE', begun, 2 * HOUR_MS)
    return true
end

redis.register_function{function_name = 'apus1_tally', flags = {'allow-oom'}, callback = function(keys, args)
    local events, tally = keys[1], keys[2]
    local group, consumer, entry = args[1], args[2], args[3]
    if not owns(events, group, consumer, entry) then
        return {'lost'}
    end
    -- No send's id has a slash: no set of ids is another send's tally.
    local ids, answer = tally .. '/' .. args[6], 'counted'
    if redis.call('SISMEMBER', ids, args[5]) == 1 then
        answer = 'known'
    elseif redis.call('SCARD', ids) >= tonumber(args[7]) or not begins_tally(tally) then
        answer = 'full'
    else
        redis.call('SADD', ids, args[5])
        redis.call('PEXPIRE', ids, args[8])
        redis.call('HINCRBY', tally, args[4], 1)
        redis.call('PEXPIRE', tally, args[8])
    end
    done(events, group, entry)
    return {answer}
end}
