-- These functions store entries that could not be handled.

-- Adds a dead letter and removes the oldest beyond what a shard keeps: by number, by age and by the memory that they take.
local function add_dead_letter(tag, letter)
    local dead = tag .. 'dead'
    local now = written_at(redis.call('XADD', dead, 'MAXLEN', '~', DEAD_LETTERS_MAX, '*', 'm', letter))
    redis.call('XTRIM', dead, 'MINID', digits(math.max(0, now - DEAD_LETTERS_KEPT_MS)))
    local length = redis.call('XLEN', dead)
    while length > 1 and redis.call('MEMORY', 'USAGE', dead, 'SAMPLES', 0) > DEAD_LETTERS_BYTES_MAX do
        length = math.floor(length * 3 / 4)
        redis.call('XTRIM', dead, 'MAXLEN', length)
    end
end

-- Acknowledges an entry and writes what is reported of it: a dead letter for an operator, a receipt for its publisher, outcomes that close
-- its recipients in the ledger. A send does not wait for a plan that is a dead letter, but counts it, because nobody knows the recipients
-- that it would have found.
-- KEYS: 1 stream
-- Returns: 1 · 0 (another owns the entry; nothing was written)
register_function{
    name = 'apus2_dead_letter',
    flags = {'allow-oom'},
    required = 3,
    run = function(
        keys,
        group,
        consumer,
        entry,
        letter, -- DeadLetter
        receipt, -- SendReceipt
        outcomes, -- OutcomeBatch
        entry_digest -- of the entry's message ('' any): a server that has forgotten the entry may have given its id to another
    )
        letter = letter or ''
        receipt = receipt or ''
        outcomes = outcomes or ''
        entry_digest = entry_digest or ''
        local stream = keys[1]
        local tag = tag_of(stream)
        if not owns(stream, group, consumer, entry) or not has_message(stream, entry, entry_digest) then
            return 0
        end
        if string.match(name_of(stream), '^plan:') then
            local state = tag .. 'send:' .. redis.call('XRANGE', stream, entry, entry)[1][2][2]
            if redis.call('EXISTS', state) == 1 then
                redis.call('HINCRBY', state, 'planning', -1)
                redis.call('HINCRBY', state, 'unplanned', 1)
            end
        end
        if letter ~= '' then
            add_dead_letter(tag, letter)
        end
        if receipt ~= '' then
            add_receipt(tag, receipt)
        end
        if outcomes ~= '' then
            redis.call('XADD', tag .. 'outcomes', '*', 'm', outcomes)
        end
        redis.call('HDEL', tag .. 'journal', name_of(stream) .. '/' .. entry)
        acknowledge(stream, group, entry)
        return 1
    end,
}

-- Keeps the dead letter of what is no entry of a queue: its owner acknowledges it by itself.
-- KEYS: 1 {q}dead
-- Returns: 1
register_function{
    name = 'apus2_keep_dead_letter',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        letter -- DeadLetter
    )
        add_dead_letter(tag_of(keys[1]), letter)
        return 1
    end,
}

-- Opens a send again that has ended without all its plans, and returns whether it could. Between the last outcome and its receipt it
-- cannot, because the outcome would count twice.
local function reopen(tag, send)
    local state, command = tag .. 'send:' .. send, tag .. 'command:' .. send
    local known = redis.call('HMGET', state, 'state', 'unplanned', 'completed_by')
    if known[1] ~= 'done' or tonumber(known[2] or '0') <= 0 or redis.call('EXISTS', command) == 0
        or #redis.call('XRANGE', tag .. 'outcomes', known[3], known[3]) > 0 then
        return false
    end
    redis.call('HSET', state, 'state', 'running')
    redis.call('HINCRBY', state, 'reopened', 1)
    redis.call('PERSIST', state)
    redis.call('PERSIST', command)
    open_send(tag, string.match(send, '^[^/]*'), send, redis.call('GET', command))
    return true
end

-- Brings the message of a dead letter back to its stream, and removes the letter. A part of a send is planned again while the send runs:
-- its recipients were closed as failed when it became a dead letter, and are counted again. A plan continues from its cursor, also in a
-- send that has ended without it.
-- KEYS: 1 {q}dead, 2 the stream
-- Returns: {'replayed', entry} · {'gone'} (no such letter, or no longer) · {'ended', state} (the send is over or gone; the letter stays)
register_function{
    name = 'apus2_replay_dead_letter',
    flags = {'allow-oom'},
    required = 2,
    run = function(
        keys,
        entry, -- of the letter
        message,
        send, -- '<app>/<id>' of the send that the message is a part of
        recipients -- to plan again
    )
        send = send or ''
        recipients = recipients or 0
        local dead, stream = keys[1], keys[2]
        if #redis.call('XRANGE', dead, entry, entry) == 0 then
            return {'gone'}
        end
        if send ~= '' then
            local state = tag_of(dead) .. 'send:' .. send
            local known = redis.call('HGET', state, 'state')
            local is_plan = string.match(name_of(stream), '^plan:')
            if known ~= 'running' and known ~= 'paused' and not (is_plan and reopen(tag_of(dead), send)) then
                return {'ended', known or 'forgotten'}
            end
            redis.call('HINCRBY', state, 'planned', recipients)
            if is_plan then
                redis.call('HINCRBY', state, 'planning', 1)
                redis.call('HINCRBY', state, 'unplanned', -1)
            end
        end
        local replayed = redis.call('XADD', stream, '*', 'm', message)
        redis.call('XDEL', dead, entry)
        return {'replayed', replayed}
    end,
}
