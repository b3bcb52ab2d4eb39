-- These functions keep the progress of work units, and what is scheduled.

-- Returns the number of the report that a journal begins with; 0 without a journal.
local function report_number(journal)
    return journal == '' and 0 or struct.unpack('>I4', journal)
end

-- Makes a unit's progress durable: the done bitmap, the outcomes of the newly set bits and the retries, together or not at all;
-- renews the lease and answers whether to go on, and how fast. A report that comes twice is written once: the journal begins with the
-- number of the last one. Of two consumers that reported the same unit, as after a failover, the one with fewer reports has lost it.
-- KEYS: 1 {q}work:<route>:<lane>, 2 {q}send:<app>/<id>
-- Returns: {verdict, recipients per second (0 any), journal ('' none; for 'begin' only)}; the verdict is 'running' · 'paused' ·
--          'cancelled' · 'refused' (the provider refuses the message) · 'done' (the send is complete without this unit) · 'lost' (another
--          owns the unit or reported in this one's place, or a report before this one is missing; nothing was written)
register_function{
    name = 'apus2_record_progress',
    flags = {'allow-oom'},
    required = 4,
    has_bulk = true,
    run = function(
        keys,
        retry_units, -- WorkUnits
        group,
        consumer,
        entry,
        -- 'begin' (nothing has gone out yet; a paused send's unit is held) · 'continue' · 'finish' (every recipient has its outcome) ·
        -- 'leave' (nothing more goes out here: the unit is held if its send is paused, else it goes back into its stream)
        next_step,
        journal, -- number of the report (4 bytes, big endian) and bitmap; '': nothing to write
        outcomes, -- OutcomeBatch
        is_repeat, -- the call is repeated after a failover, maybe behind others of the same owner
        retry_delays_ms, -- of each retry, from now, in the same order as the next three
        retry_ids,
        retry_streams, -- names
        rejected_field, -- of the message, which the provider calls wrong
        accepted_count -- name of the ledger's count that must be missing for the send to be refused on this route from now on
    )
        journal = journal or ''
        outcomes = outcomes or ''
        retry_delays_ms = retry_delays_ms or none
        retry_ids = retry_ids or none
        retry_streams = retry_streams or none
        rejected_field = rejected_field or ''
        accepted_count = accepted_count or ''
        local work, state = keys[1], keys[2]
        local tag, name = tag_of(work), name_of(work)
        if not owns(work, group, consumer, entry) then
            return {'lost', 0, ''}
        end
        local route = string.match(name, '^work:(%d+):')
        local known = redis.call('HMGET', state, 'state', 'rate', 'refused:' .. route)
        local verdict, rate = known[1] or 'done', tonumber(known[2] or '0')
        local journal_field = name .. '/' .. entry
        local known_journal = redis.call('HGET', tag .. 'journal', journal_field) or ''
        local last = report_number(known_journal)
        local number = report_number(journal)
        if number > last + 1 then
            -- A report is missing, as after a failover: its outcomes are not here, so its bits may not be either.
            return {'lost', 0, ''}
        end
        if number > 0 and number == last and journal ~= known_journal then
            return {'lost', 0, ''}
        end
        local ends = next_step == 'finish' or next_step == 'leave'
        if number > 0 and number < last and (not is_repeat or ends) then
            -- Only a caller that repeats all its writes can be behind while no other has continued.
            return {'lost', 0, ''}
        end
        if rejected_field ~= '' and known[1] then
            redis.call('HSETNX', state, 'blamed:' .. route, rejected_field)
            if accepted_count ~= '' and redis.call('HEXISTS', state, accepted_count) == 0 then
                redis.call('HSET', state, 'refused:' .. route, rejected_field)
                known[3] = rejected_field
            end
        end
        if verdict == 'running' and known[3] then
            verdict = 'refused'
        end
        local is_new = number > last
        if is_new then
            local now = now_ms()
            if #retry_ids > 0 then
                note_time(tag, now)
            end
            for index, id in ipairs(retry_ids) do
                -- A retry of a cancelled or refused send need not wait: the next reader closes it.
                local due = (verdict == 'cancelled' or verdict == 'refused') and 0 or now + retry_delays_ms[index]
                add_due(tag, due, id, retry_streams[index], retry_units[index])
            end
            if outcomes ~= '' then
                redis.call('XADD', tag .. 'outcomes', '*', 'm', outcomes)
            end
            known_journal = journal
        end
        local stays = not ends and not (verdict == 'paused' and next_step == 'begin')
        if rate > 0 and stays then
            add_paced(work, entry)
        end
        if next_step == 'finish' or (next_step == 'leave' and verdict == 'done') then
            redis.call('HDEL', tag .. 'journal', journal_field)
            acknowledge(work, group, entry)
        elseif verdict == 'paused' and (next_step == 'begin' or next_step == 'leave') then
            hold(work, group, entry, send_of(state), known_journal)
        elseif next_step == 'leave' then
            append_with_journal(tag, name, redis.call('XRANGE', work, entry, entry)[1][2][2], known_journal)
            redis.call('HDEL', tag .. 'journal', journal_field)
            acknowledge(work, group, entry)
        else
            if is_new then
                redis.call('HSET', tag .. 'journal', journal_field, known_journal)
            end
            renew_lease(work, group, consumer, entry, is_new)
        end
        return {verdict, rate, next_step == 'begin' and known_journal or ''}
    end,
}

local SENDS_RELEASED_MAX = 4

-- Moves due messages to their streams. It also finishes what a resume or a cancellation left half-done: held entries whose send is not
-- paused, of a few sends at a time.
-- KEYS: 1 {q}due
-- Returns: {moved, ms until there is more to do (-1 nothing), then per message: id that it was stored by, id in its stream}
register_function{
    name = 'apus2_move_due',
    flags = {'allow-oom'},
    required = 1,
    run = function(keys, limit)
        local due, now = keys[1], now_ms()
        local ids = redis.call('ZRANGEBYSCORE', due, '-inf', digits(now), 'LIMIT', 0, limit)
        local moves = {}
        for _, id in ipairs(ids) do
            local entry = move_due(due, id, '')
            if entry then
                moves[#moves + 1] = id
                moves[#moves + 1] = entry
            end
        end
        local tag = tag_of(due)
        local held = redis.call('HRANDFIELD', tag .. 'held', SENDS_RELEASED_MAX)
        for _, send in ipairs(held) do
            if not is_paused(tag, send) then
                release_held(tag, send, limit)
            end
        end
        local next_one = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
        local wait = -1
        if next_one[2] then
            wait = math.max(0, tonumber(next_one[2]) - now)
        end
        if #held > 0 then
            wait = 0 -- the next call may release more
        end
        return {#moves / 2, wait, unpack(moves)}
    end,
}

-- Moves the same messages again, with the ids that they had in their streams: after a failover the server may have forgotten the move, and
-- later calls name them by those ids.
-- KEYS: 1 {q}due
-- Returns: how many were stored
register_function{
    name = 'apus2_repeat_move_due',
    flags = {'allow-oom'},
    required = 2,
    run = function(
        keys,
        ids, -- that the messages were stored by
        entries -- ids that they had in their streams
    )
        local moved = 0
        for index, id in ipairs(ids) do
            moved = moved + (move_due(keys[1], id, entries[index]) and 1 or 0)
        end
        return moved
    end,
}
