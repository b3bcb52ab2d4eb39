-- These functions manage idempotency keys: how long they count, where the command of one was written, and that one is forgotten.

-- Sets for how long an idempotency key counts, at least; at most a sixth longer.
-- KEYS: 1 {q}idem
-- Returns: 1
register_function{
    name = 'apus2_set_idempotency_window',
    flags = {'allow-oom'},
    required = 1,
    run = function(keys, window_ms)
        local tag = tag_of(keys[1])
        local periods = idempotency_periods(tag)
        redis.call('HSET', keys[1], 'window_ms', window_ms)
        local longer = tonumber(window_ms)
        if longer > periods.window then
            -- Keys that are remembered count for longer, too.
            local kept = digits(longer + math.ceil(longer / IDEMPOTENCY_PERIODS))
            for period = math.max(1, periods.current - IDEMPOTENCY_PERIODS), periods.current do
                redis.call('PEXPIRE', tag .. 'idem:' .. digits(period), kept, 'GT')
            end
        end
        return 1
    end,
}

-- Finds where the command of an idempotency key was written.
-- KEYS: 1 {q}idem
-- Returns: mailbox key / entry · '' nothing
register_function{
    name = 'apus2_find_idempotency_key',
    flags = {'no-writes'},
    required = 1,
    run = function(
        keys,
        key -- digest, 12 bytes
    )
        local _, _, origin = idempotency_find(tag_of(keys[1]), idempotency_periods(tag_of(keys[1])), key, '')
        return origin or ''
    end,
}

-- Writes a command again that the server has forgotten while it knows its key, which names the new entry from then on.
-- KEYS: 1 {q}in:<lane>
-- Returns: the new entry · '' the key is another origin's, or not known
register_function{
    name = 'apus2_restore_command',
    flags = {'allow-oom'},
    required = 3,
    run = function(
        keys,
        key, -- digest, 12 bytes
        origin, -- mailbox key / entry: the forgotten one
        command -- SendCommand
    )
        local mailbox = keys[1]
        local tag = tag_of(mailbox)
        local periods = idempotency_periods(tag)
        local digest, send, known_origin = idempotency_find(tag, periods, key, '')
        if known_origin ~= origin then
            return ''
        end
        local entry = redis.call('XADD', mailbox, '*', 'm', command)
        idempotency_put(tag, periods, key, digest, send, mailbox .. '/' .. entry, written_at(entry))
        return entry
    end,
}

-- Forgets an idempotency key that one origin holds, so that the same command may come from another: before it is replayed.
-- KEYS: 1 {q}idem
-- Returns: 1 forgotten · 0 no such key, or another origin's
register_function{
    name = 'apus2_forget_idempotency_key',
    flags = {'allow-oom'},
    required = 2,
    run = function(
        keys,
        key, -- digest, 12 bytes
        origin -- mailbox key / entry
    )
        local _, _, known_origin, place = idempotency_find(tag_of(keys[1]), idempotency_periods(tag_of(keys[1])), key, '')
        if known_origin ~= origin then
            return 0
        end
        return redis.call('HDEL', place, key)
    end,
}
