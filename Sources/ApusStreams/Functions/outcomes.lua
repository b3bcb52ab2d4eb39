-- Outcomes of sends and their receipts.

-- Returns whether it is time to report how far a send is, and records that it was reported. A report at a time to come counts as one now.
-- totals: planning, planned, closed
local function is_progress_due(state, totals, every, percent)
    local now = now_ms()
    local reported = redis.call('HMGET', state, 'progress_at', 'progress_closed')
    if not reported[1] or tonumber(reported[1]) > now then
        redis.call('HSET', state, 'progress_at', digits(now))
        if every > 0 then
            return false
        end
        reported[1] = digits(now)
    end
    local planned, closed = tonumber(totals[2]), tonumber(totals[3])
    local since = closed - tonumber(reported[2] or '0')
    if now - tonumber(reported[1]) < every or since * 100 < planned * percent then
        return false
    end
    redis.call('HSET', state, 'progress_at', digits(now), 'progress_closed', digits(closed))
    return true
end

-- Returns whether a command is there, and small enough to be kept after its send has ended.
local function is_kept_command(command)
    local length = redis.call('STRLEN', command)
    return length > 0 and length <= COMMAND_KEPT_BYTES_MAX
end

-- Moves the ledger of a send by one batch of outcomes and acknowledges it: both or neither. The batch that completes the send stays
-- unacknowledged until its receipt is out (apus2_acknowledge), and gives the same answer again until then.
-- KEYS: 1 {q}outcomes, 2 {q}send:<app>/<id>
-- Returns: {'ok'} · {'progress', fields and values of the ledger} (acknowledged: not reported again if the caller dies) ·
--          {'final', fields and values of the ledger} · {'lost'} · {'gone'} (no such send, or it was complete before; acknowledged)
register_function{
    name = 'apus2_apply_outcomes',
    flags = {'allow-oom'},
    required = 4,
    run = function(
        keys,
        group,
        consumer,
        entry,
        retention_ms, -- of the ledger of an ended send
        first_ms, -- when the first of the outcomes came
        last_ms, -- when the last of them came
        names, -- of counts: '<provider>/<outcome>/<reason>'
        counts, -- in the same order
        progress_every_ms, -- between two reports of a send that is under way; absent: no reports
        progress_percent, -- of the recipients that must have ended since the last report
        entry_digest -- of the entry's message ('' any): a server that has forgotten the entry may have given its id to another
    )
        names = names or none
        counts = counts or none
        progress_percent = progress_percent or 0
        entry_digest = entry_digest or ''
        local outcomes, state = keys[1], keys[2]
        if not owns(outcomes, group, consumer, entry) or not has_message(outcomes, entry, entry_digest) then
            return {'lost'}
        end
        local known = redis.call('HMGET', state, 'state', 'completed_by', 'first_at', 'last_at')
        if not known[1] then
            acknowledge(outcomes, group, entry)
            return {'gone'}
        end
        if known[2] == entry then
            return {'final', redis.call('HGETALL', state)}
        end
        if known[1] == 'done' then
            -- The entry was brought back after its end: its recipients are counted already.
            acknowledge(outcomes, group, entry)
            return {'gone'}
        end
        local closed = 0
        for index, name in ipairs(names) do
            redis.call('HINCRBY', state, name, counts[index])
            closed = closed + counts[index]
        end
        redis.call('HINCRBY', state, 'closed', digits(closed))
        if first_ms and (not known[3] or first_ms < tonumber(known[3])) then
            redis.call('HSET', state, 'first_at', first_ms)
        end
        if last_ms and (not known[4] or last_ms > tonumber(known[4])) then
            redis.call('HSET', state, 'last_at', last_ms)
        end
        local totals = redis.call('HMGET', state, 'planning', 'planned', 'closed', 'unplanned')
        if totals[1] == '0' and tonumber(totals[3]) >= tonumber(totals[2]) then
            redis.call('HSET', state, 'state', 'done', 'completed_by', entry)
            redis.call('PEXPIRE', state, retention_ms)
            local tag, send = tag_of(state), send_of(state)
            close_send(tag, send, redis.call('STRLEN', tag .. 'command:' .. send))
            if known[1] ~= 'cancelled' and tonumber(totals[4] or '0') > 0 then
                -- A plan of it is a dead letter, with which it can go on as long as its ledger is there.
                redis.call('PEXPIRE', tag .. 'command:' .. send, retention_ms)
            elseif is_kept_command(tag .. 'command:' .. send) then
                -- An operator may want to see what was sent. Nobody who sends looks for it there.
                redis.call('RENAME', tag .. 'command:' .. send, tag .. 'sent:' .. send)
                redis.call('PEXPIRE', tag .. 'sent:' .. send, retention_ms)
            else
                redis.call('DEL', tag .. 'command:' .. send)
            end
            return {'final', redis.call('HGETALL', state)}
        end
        acknowledge(outcomes, group, entry)
        if progress_every_ms and is_progress_due(state, totals, progress_every_ms, progress_percent) then
            return {'progress', redis.call('HGETALL', state)}
        end
        return {'ok'}
    end,
}

-- Writes a receipt into the shard's receipts, which keep a few days.
-- KEYS: 1 {q}receipts
-- Returns: 1
register_function{
    name = 'apus2_write_receipt',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        receipt -- SendReceipt
    )
        add_receipt(tag_of(keys[1]), receipt)
        return 1
    end,
}

-- Writes a receipt into a publisher's own stream, which keeps the last ones for a few days.
-- KEYS: 1 stream
-- Returns: 1
register_function{
    name = 'apus2_write_reply',
    flags = {'allow-oom'},
    required = 2,
    run = function(
        keys,
        receipt, -- SendReceipt
        entries_max -- that the stream keeps, roughly
    )
        redis.call('XADD', keys[1], 'MAXLEN', '~', entries_max, '*', 'm', receipt)
        redis.call('XTRIM', keys[1], 'MINID', '~', oldest_receipt())
        redis.call('PEXPIRE', keys[1], RECEIPTS_RETENTION_MS)
        return 1
    end,
}
