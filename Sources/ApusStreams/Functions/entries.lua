-- These functions manage which consumer owns which entries of a stream: acknowledgement and leases.

-- Acknowledges those entries that this consumer still owns, and removes them from their stream.
-- KEYS: 1 stream
-- Returns: their ids
register_function{
    name = 'apus2_acknowledge',
    flags = {'allow-oom'},
    required = 3,
    run = function(
        keys,
        group,
        consumer,
        entries, -- ids, each once, at most 64
        digests -- of their messages ('' any), in the same order: a server that has forgotten an entry may have given its id to another
    )
        local stream, acknowledged = keys[1], {}
        digests = digests or none
        for index, entry in ipairs(entries) do
            if owns(stream, group, consumer, entry) and has_message(stream, entry, digests[index] or '') then
                acknowledged[#acknowledged + 1] = entry
            end
        end
        acknowledge_all(stream, group, acknowledged)
        return acknowledged
    end,
}

-- Renews the leases of entries that this consumer still owns, or hands them back, and sets how many deliveries they count: fewer for an
-- entry that is handed back in good order or must not answer for a neighbour's end, one more for a poison entry that begins.
-- KEYS: streams of one shard
-- Returns: how many this consumer still owned
register_function{
    name = 'apus2_renew_leases',
    flags = {'allow-oom'},
    required = 4,
    run = function(
        keys,
        group,
        consumer,
        entries, -- ids, a list of each stream
        deliveries, -- a list of each stream; -1: as they are
        idle_ms, -- to pretend: 0 keeps the entries; more than a lease gives them to any consumer that asks
        is_exact -- `deliveries` are meant exactly, else at most
    )
        idle_ms = idle_ms or 0
        local count = 0
        for number, stream in ipairs(keys) do
            for index, entry in ipairs(entries[number]) do
                local wanted = deliveries[number][index]
                local pending = redis.pcall('XPENDING', stream, group, entry, entry, 1, consumer)
                if not pending.err and #pending == 1 then
                    if wanted >= 0 and (is_exact or pending[1][4] > wanted) then
                        redis.call('XCLAIM', stream, group, consumer, 0, entry, 'IDLE', idle_ms, 'RETRYCOUNT', wanted, 'JUSTID')
                    else
                        redis.call('XCLAIM', stream, group, consumer, 0, entry, 'IDLE', idle_ms, 'JUSTID')
                    end
                    count = count + 1
                end
            end
        end
        return count
    end,
}

-- Writes something, so that a WAIT on the same connection covers every earlier write of its server: it counts, or sets the time to live of a
-- publisher's stream anew, as its last receipt did. A stream that is gone meanwhile is written and removed at once, since a command that
-- changes nothing is not sent to replicas, and WAIT would speak of earlier writes only.
-- KEYS: 1 {q}claims, or a publisher's stream
-- Returns: the number of such writes; of a stream 1
register_function{
    name = 'apus2_mark_write',
    flags = {'allow-oom'},
    run = function(keys)
        if not tag_of(keys[1]) then
            if redis.call('PEXPIRE', keys[1], RECEIPTS_RETENTION_MS) == 0 then
                redis.call('XADD', keys[1], '*', 'm', '')
                redis.call('DEL', keys[1])
            end
            return 1
        end
        return redis.call('HINCRBY', keys[1], 'marked', 1)
    end,
}

-- Counts the entries of a stream that were removed before a group has read them. They count as read from then on, so that each is counted
-- once, whoever asks. It holds for a stream of which only the oldest entries are removed.
-- KEYS: 1 stream
-- Returns: how many; 0 also when that is not known
register_function{
    name = 'apus2_count_removed',
    flags = {'allow-oom'},
    required = 1,
    run = function(keys, group)
        local stream = keys[1]
        local known, reader = named(redis.call('XINFO', 'STREAM', stream)), group_information(stream, group)
        local added, read = known['entries-added'], reader and reader['entries-read']
        if not added or not read then
            return 0
        end
        local removed = added - known['length']
        if removed <= read then
            return 0
        end
        redis.call('XGROUP', 'SETID', stream, group, reader['last-delivered-id'], 'ENTRIESREAD', digits(removed))
        return removed - read
    end,
}

-- Removes a consumer from the streams where it owns nothing: XGROUP DELCONSUMER by itself would drop what it owns.
-- KEYS: streams of one shard
-- Returns: from how many; streams where it still owns entries, or without such a group, do not count
register_function{
    name = 'apus2_remove_consumer',
    flags = {'allow-oom'},
    required = 2,
    run = function(keys, group, consumer)
        local count = 0
        for _, stream in ipairs(keys) do
            local pending = redis.pcall('XPENDING', stream, group, '-', '+', 1, consumer)
            if not pending.err and #pending == 0 then
                redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer)
                count = count + 1
            end
        end
        return count
    end,
}

-- Creates a group on each of the streams, from their beginnings, and the streams, where they are missing. A stream that cannot have the
-- group does not stop the others from getting it. It runs on a full Redis too, because a missing group blocks the streams that are read
-- together with its own.
-- KEYS: streams of one shard
-- Returns: how many were missing; else the last error
register_function{
    name = 'apus2_create_groups',
    flags = {'allow-oom'},
    required = 1,
    run = function(keys, group)
        local made, failure = 0, nil
        for _, stream in ipairs(keys) do
            local answer = redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
            if not answer.err then
                made = made + 1
            elseif not string.find(answer.err, 'BUSYGROUP', 1, true) then
                failure = answer
            end
        end
        return failure or made
    end,
}
