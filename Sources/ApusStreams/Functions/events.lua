-- These functions count the events that apps report of their notifications.

-- Appends events, unless too many wait. After a lost answer they may be in the stream twice: the reader counts an event's id once.
-- KEYS: 1 {q}events
-- Returns: {'new', how many} · {'full', how many wait}
register_function{
    name = 'apus2_report_events',
    required = 1,
    has_bulk = true,
    run = function(
        keys,
        events, -- ClientEvents
        entries_max -- that may wait
    )
        local length = redis.call('XLEN', keys[1])
        if length + #events > entries_max then
            return {'full', length}
        end
        for _, event in ipairs(events) do
            redis.call('XADD', keys[1], '*', 'm', event)
        end
        return {'new', #events}
    end,
}

local UNKNOWN_SENDS_MAX = 5000 -- of an app in a shard in an hour
local HOUR_MS = 3600 * 1000

-- Returns whether events of a send may be counted. Apps name the send themselves, so of the unknown ones (direct sends, or inventions) only
-- so many of each app begin to be counted in an hour.
local function may_count(counts)
    local tag = tag_of(counts)
    local send, app = string.match(counts, '^%b{}event_counts:(([^/]*)/.*)$')
    if redis.call('EXISTS', counts) == 1 or redis.call('EXISTS', tag .. 'send:' .. send) == 1 then
        return true
    end
    local begun = tag .. 'event_sends:' .. app .. ':' .. digits(math.floor(now_ms() / HOUR_MS))
    if tonumber(redis.call('GET', begun) or '0') >= UNKNOWN_SENDS_MAX then
        return false
    end
    redis.call('INCR', begun)
    redis.call('PEXPIRE', begun, 2 * HOUR_MS)
    return true
end

-- Counts an event, once for each id, and acknowledges it: both or neither.
-- KEYS: 1 {q}events, 2 {q}event_counts:<app>/<id>
-- Returns: {'counted'} · {'known'} (that id was counted) · {'full'} (not counted; acknowledged) · {'lost'} (another owns the entry)
register_function{
    name = 'apus2_count_event',
    flags = {'allow-oom'},
    required = 8,
    run = function(
        keys,
        group,
        consumer,
        entry,
        name, -- of the count: '<provider>/<kind>'
        id_digest, -- a whole number in digits, so that few of them are an intset: 8 bytes each
        bucket, -- which of the sets of ids
        ids_max, -- that one set may hold
        retention_ms, -- of what was counted, after the last event
        device_digest, -- at most 16 digits; empty: ids are not counted by device
        device_ids_max, -- of one device, at most 100
        entry_digest -- of the entry's message ('' any): a server that has forgotten the entry may have given its id to another
    )
        device_digest = device_digest or ''
        device_ids_max = device_ids_max or 0
        entry_digest = entry_digest or ''
        local events, counts = keys[1], keys[2]
        if not owns(events, group, consumer, entry) or not has_message(events, entry, entry_digest) then
            return {'lost'}
        end
        -- No send's id has a slash: no set of ids is another send's counts.
        local ids, answer = counts .. '/' .. bucket, 'counted'
        -- The set has an element for each id of the device too, numbered by the last two digits.
        local free
        for number = 0, device_ids_max - 1 do
            local element = string.format('%s%02d', device_digest, number)
            if redis.call('SISMEMBER', ids, element) == 0 then
                free = element
                break
            end
        end
        if redis.call('SISMEMBER', ids, id_digest) == 1 then
            answer = 'known'
        elseif redis.call('SCARD', ids) >= 2 * ids_max or device_digest ~= '' and not free or not may_count(counts) then
            answer = 'full'
        else
            redis.call('SADD', ids, id_digest)
            if free then redis.call('SADD', ids, free) end
            redis.call('PEXPIRE', ids, retention_ms)
            redis.call('HINCRBY', counts, name, 1)
            -- The counts are read beside the ledger, for as long as that is kept.
            local kept = redis.call('PTTL', (string.gsub(counts, '^(%b{})event_counts:', '%1send:')))
            redis.call('PEXPIRE', counts, digits(math.max(kept, retention_ms)))
        end
        acknowledge(events, group, entry)
        return {answer}
    end,
}
