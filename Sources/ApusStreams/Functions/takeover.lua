-- Takeover: these functions give entries to another consumer when their owner is silent, a read was not answered, or a failover forgot it.

local CLOCK_STEP_ENTRIES_MAX = 10000 -- of a stream that get a new lease when the clock has gone back
local CLOCK_STEP_PAGE = 100

-- Renews from now the leases of entries whose last renewal lies in the future, as a clock that has gone back leaves them. Redis shows no
-- idle time for them, so nobody could take them over until the clock has caught up. It is done once a lease: nobody may have asked while the
-- clock was ahead.
local function restart_leases(stream, group)
    local from, left = '-', CLOCK_STEP_ENTRIES_MAX
    repeat
        local page = redis.pcall('XPENDING', stream, group, from, '+', CLOCK_STEP_PAGE)
        if page.err then
            return
        end
        for _, pending in ipairs(page) do
            if pending[3] == 0 then
                redis.call('XCLAIM', stream, group, pending[2], 0, pending[1], 'IDLE', 0, 'JUSTID')
            end
            from = '(' .. pending[1]
        end
        left = left - #page
    until #page < CLOCK_STEP_PAGE or left <= 0
end

-- Returns an entry as its new owner gets it. A poison entry waits to run alone, so its delivery counts when it begins (apus2_renew_leases).
local function delivered(stream, group, consumer, entry)
    local deliveries = redis.call('XPENDING', stream, group, entry[1], entry[1], 1)[1][4]
    if deliveries > DELIVERIES_TOGETHER_MAX and deliveries < DELIVERIES_MAX then
        redis.call('XCLAIM', stream, group, consumer, 0, entry[1], 'RETRYCOUNT', deliveries - 1, 'JUSTID')
    end
    local journal = redis.call('HGET', tag_of(stream) .. 'journal', name_of(stream) .. '/' .. entry[1])
    return {entry[1], message_of(entry[2]), deliveries, journal or ''}
end

-- Takes over entries whose owner is silent, from all the streams that a consumer has room for. When nobody has asked for a while
-- (Redis was frozen, the clock jumped, everybody was cut off), the owners first get the time of a lease to renew. Idle times are differences of
-- the server's clock: after a step back the leases of each stream are counted anew, and retries become due as much sooner.
-- KEYS: streams of one shard
-- Returns: per stream {cursor ('' there is no such stream or group), entries: {id, message, deliveries, journal ('' none)} …,
--          ids that no longer exist}
register_function{
    name = 'apus2_claim_entries',
    flags = {'allow-oom'},
    required = 5,
    run = function(
        keys,
        group,
        consumer,
        lease_ms,
        counts, -- how many at most, of each stream
        cursors -- of each stream; '0-0' to begin
    )
        local tag, now = tag_of(keys[1]), now_ms()
        local stamps = tag .. 'claims'
        local asked = tonumber(redis.call('HGET', stamps, group .. '/asked') or digits(now))
        local amnesty = tonumber(redis.call('HGET', stamps, group .. '/amnesty') or '0')
        if now < asked or now - asked > lease_ms / 2 then
            amnesty = now + lease_ms
            redis.call('HSET', stamps, group .. '/amnesty', digits(amnesty))
        end
        redis.call('HSET', stamps, group .. '/asked', digits(now))
        note_time(tag, now)
        local left = CLAIM_ENTRIES_MAX
        if now < amnesty and amnesty - now <= lease_ms then
            left = 0
        end
        local answer = {}
        for index, stream in ipairs(keys) do
            local checked_field = group .. '/checked/' .. name_of(stream)
            local checked = tonumber(redis.call('HGET', stamps, checked_field) or '0')
            if now < checked or now - checked >= lease_ms then
                restart_leases(stream, group)
                redis.call('HSET', stamps, checked_field, digits(now))
            end
            local count, cursor = math.min(counts[index], left), cursors[index]
            local entries, vanished = {}, {}
            if count > 0 then
                local reply = redis.pcall('XAUTOCLAIM', stream, group, consumer, lease_ms, cursor, 'COUNT', count)
                if reply.err then
                    cursor = ''
                else
                    cursor, vanished = reply[1], reply[3]
                    for _, entry in ipairs(reply[2]) do
                        entries[#entries + 1] = delivered(stream, group, consumer, entry)
                    end
                    left = left - #entries
                end
            end
            answer[index] = {cursor, entries, vanished}
        end
        return answer
    end,
}

local OWN_PENDING_MAX = 1000 -- entries that one call looks at

-- Reads entries again that are this consumer's and not in its hand: a read whose answer was lost has made them its own. Others would take them
-- over only after a lease, and after the lease that everybody gets when nobody has asked for a while.
-- KEYS: streams of one shard
-- Returns: per stream entries: {id, message, deliveries, journal ('' none)} …
register_function{
    name = 'apus2_reread_entries',
    flags = {'allow-oom'},
    required = 5,
    run = function(
        keys,
        group,
        consumer,
        idle_ms, -- since their delivery at least: the answer to another read may be on its way
        count, -- how many at most, of each stream
        in_hand -- ids, a list of each stream
    )
        local answer = {}
        for index, stream in ipairs(keys) do
            local known, entries = {}, {}
            for _, entry in ipairs(in_hand[index]) do
                known[entry] = true
            end
            local pending = redis.pcall('XPENDING', stream, group, 'IDLE', idle_ms, '-', '+', OWN_PENDING_MAX, consumer)
            for _, own in ipairs(pending.err and none or pending) do
                if not known[own[1]] and #entries < count then
                    local claimed = redis.call('XCLAIM', stream, group, consumer, idle_ms, own[1])
                    if claimed[1] then
                        entries[#entries + 1] = delivered(stream, group, consumer, claimed[1])
                    end
                end
            end
            answer[index] = entries
        end
        return answer
    end,
}

-- Renews the lease of an entry that this consumer owns and could not handle, and returns it as it is now: its handling begins again, as the
-- same delivery. The handler is told of two deliveries at least, because it is no first one.
-- KEYS: 1 stream
-- Returns: entries: {id, message, deliveries, journal ('' none)}, none if it is not this consumer's, or no more; in a list, like those above
register_function{
    name = 'apus2_take_again',
    flags = {'allow-oom'},
    required = 5,
    run = function(
        keys,
        group,
        consumer,
        entry, -- id
        deliveries, -- that its handler was told
        digest -- of its message
    )
        local stream = keys[1]
        local pending = redis.pcall('XPENDING', stream, group, entry, entry, 1, consumer)
        if pending.err or #pending == 0 or not has_message(stream, entry, digest) then
            return {{}}
        end
        -- A poison entry that has not begun counts one less. One that has made progress counts anew, and stays so.
        local counted = pending[1][4]
        if deliveries > DELIVERIES_TOGETHER_MAX and counted == deliveries - 1 then
            counted = deliveries
        end
        local claimed = redis.call('XCLAIM', stream, group, consumer, 0, entry, 'RETRYCOUNT', counted)
        if not claimed[1] then
            return {{}}
        end
        local own = delivered(stream, group, consumer, claimed[1])
        own[3] = math.max(own[3], 2)
        return {{own}}
    end,
}

local READ_AGAIN_MAX = 500 -- entries that one call marks as read

-- Marks the entries behind the last one that the group has read as read, as long as they are pending without a gap.
local function mark_read(stream, group)
    local last = group_information(stream, group)['last-delivered-id']
    local read = last
    for _, entry in ipairs(redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', READ_AGAIN_MAX)) do
        if #redis.call('XPENDING', stream, group, entry[1], entry[1], 1) == 0 then
            break
        end
        read = entry[1]
    end
    if read ~= last then
        redis.call('XGROUP', 'SETID', stream, group, read)
    end
end

-- Makes entries this consumer's, even those that nobody has read: after a failover the server may have forgotten who did. An entry that
-- another consumer has renewed within a lease stays with it, because that consumer is alive. An entry with another message is another one:
-- the server has forgotten the one that is meant, and its clock, which is behind, has given the id again. A server that has forgotten that
-- entries were read would give them to the next reader, owned or not, so they are marked as read.
-- KEYS: 1 stream
-- Returns: ids of the entries that exist and belong to this consumer after the call
register_function{
    name = 'apus2_reclaim_entries',
    flags = {'allow-oom'},
    required = 4,
    run = function(
        keys,
        group,
        consumer,
        lease_ms,
        entries, -- ids, each once
        digests -- of their messages, in the same order; '' any
    )
        digests = digests or none
        local stream = keys[1]
        local claimed = {}
        for index, entry in ipairs(entries) do
            local pending = redis.call('XPENDING', stream, group, entry, entry, 1)[1]
            local is_free = not pending or pending[2] == consumer or pending[3] >= lease_ms
            if is_free and has_message(stream, entry, digests[index] or '') then
                redis.call('XCLAIM', stream, group, consumer, 0, entry, 'FORCE', 'JUSTID')
                claimed[#claimed + 1] = entry
            end
        end
        if #claimed > 0 then
            mark_read(stream, group)
        end
        return claimed
    end,
}
