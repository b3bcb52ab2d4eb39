-- These functions take the commands of publishers: publishing, intake, and the end of direct sends.
local RATE_MEASURED_MS = 1000 -- over which the rate of a mailbox is measured, at least
local RATE_FORGOTTEN_MS = 60000 -- an older measurement says nothing about now
local COME_BACK_MIN_MS = 100
local COME_BACK_UNKNOWN_MS = 1000
local COME_BACK_MAX_MS = 30000
local LOST_ENDS_KEPT_MS = 3600000 -- longer than a dispatcher repeats them

-- Returns in how many ms a tenth of the mailbox will be free, at the rate at which entries were taken of late: many publishers come back
-- at once, so one free place is not enough.
local function come_back_ms(mailbox, length, most, now)
    local added = named(redis.call('XINFO', 'STREAM', mailbox))['entries-added'] or length
    local taken, name = added - length, name_of(mailbox)
    local publisher = string.match(name, '^in:%a+(:.+)$') -- of a mailbox of its own, whose rate no other publisher may write
    local place = tag_of(mailbox) .. 'mailbox_rates' .. (publisher or '')
    local known = redis.call('HMGET', place, name .. '/at', name .. '/taken', name .. '/per_second')
    local at, before, rate = tonumber(known[1] or ''), tonumber(known[2] or ''), tonumber(known[3] or '')
    if not at or now < at or now - at > RATE_FORGOTTEN_MS or taken < before then
        redis.call('HSET', place, name .. '/at', digits(now), name .. '/taken', digits(taken))
        redis.call('HDEL', place, name .. '/per_second')
        return COME_BACK_UNKNOWN_MS
    end
    if now - at >= RATE_MEASURED_MS then
        rate = (taken - before) * 1000 / (now - at)
        redis.call('HSET', place, name .. '/at', digits(now), name .. '/taken', digits(taken), name .. '/per_second',
            string.format('%.3f', rate))
    end
    if not rate then
        return COME_BACK_UNKNOWN_MS
    end
    if rate == 0 then
        return COME_BACK_MAX_MS
    end
    return math.max(COME_BACK_MIN_MS, math.min(COME_BACK_MAX_MS, math.ceil(most / 10 / rate * 1000)))
end

-- Writes a command into a mailbox, once per idempotency key, unless the mailbox is full. An entry with the field `a` is admitted: it is the one
-- that its key names, so its first delivery needs no apus2_admit_send.
-- KEYS: 1 {q}in:<lane>
-- Returns: {'new', send, entry} · {'duplicate', send} · {'conflict', send} · {'full', entries, ms after which to come back}
register_function{
    name = 'apus2_publish',
    required = 5,
    run = function(
        keys,
        digest, -- of the command's content, 8 bytes
        app,
        send, -- its id in the app
        entries_max, -- that the mailbox may hold
        command, -- SendCommand
        key -- digest of the idempotency key, 12 bytes
    )
        key = key or ''
        local mailbox = keys[1]
        local tag, now = tag_of(mailbox), now_ms()
        local periods = key ~= '' and idempotency_periods(tag)
        if key ~= '' then
            local known_digest, known_send, _, place = idempotency_find(tag, periods, key, send)
            if known_digest == digest then
                -- Written again as it is: a WAIT that follows speaks of the last write of its connection.
                redis.call('HSET', place, key, redis.call('HGET', place, key))
                return {'duplicate', known_send}
            elseif known_digest then
                return {'conflict', known_send}
            end
            local kept = redis.call('HGET', tag .. 'send:' .. send_key(app, send), 'digest')
            if kept then
                return {kept == digest and 'duplicate' or 'conflict', send}
            end
        end
        local length = redis.call('XLEN', mailbox)
        if length >= entries_max then
            return {'full', length, come_back_ms(mailbox, length, entries_max, now)}
        end
        if key == '' then
            return {'new', send, redis.call('XADD', mailbox, '*', 'm', command)}
        end
        local entry = redis.call('XADD', mailbox, '*', 'm', command, 'a', digest)
        idempotency_put(tag, periods, key, digest, send, mailbox .. '/' .. entry, now)
        return {'new', send, entry}
    end,
}

-- Decides whether a direct send may go out: its key names it and no other, and no other send of the app has its id. One whose state is kept
-- has gone out.
-- KEYS: 1 {q}idem
-- Returns: {'new'} (also when this origin asks again) · {'restored'} (it is new to a server that has forgotten its publication) ·
--          {'known'} (this origin's send is kept) · {'duplicate', send} · {'conflict', send}
register_function{
    name = 'apus2_admit_send',
    flags = {'allow-oom'},
    required = 4,
    run = function(
        keys,
        app,
        digest, -- of the command's content, 8 bytes
        send, -- its id in the app
        origin, -- mailbox key / entry
        key, -- digest of the idempotency key, 12 bytes
        is_repeat -- the call is repeated after a failover
    )
        key = key or ''
        local tag, now = tag_of(keys[1]), now_ms()
        local is_known = key == ''
        local periods = not is_known and idempotency_periods(tag)
        if not is_known then
            local known_digest, known_send, known_origin = idempotency_find(tag, periods, key, send)
            if known_digest and known_digest ~= digest then
                return {'conflict', known_send}
            end
            if known_digest and known_origin ~= origin then
                return {'duplicate', known_send}
            end
            is_known = known_digest ~= nil
        end
        local kept = redis.call('HMGET', tag .. 'send:' .. send_key(app, send), 'origin', 'digest')
        if kept[1] == origin and kept[2] == digest then
            return {'known'}
        end
        if kept[1] then
            return {kept[2] == digest and 'duplicate' or 'conflict', send}
        end
        if not is_known then
            idempotency_put(tag, periods, key, digest, send, origin, now)
            if is_repeat then
                return {'restored'}
            end
        end
        return {'new'}
    end,
}

-- Returns true when an app has as many open sends in a shard as it may, or one of that many bytes would be too much.
local function is_crowded(tag, app, bytes, sends_max, bytes_max)
    local open = redis.call('HMGET', tag .. 'open:' .. app, 'sends', 'bytes')
    return sends_max > 0 and tonumber(open[1] or 0) >= sends_max
        or bytes_max > 0 and tonumber(open[2] or 0) + bytes > bytes_max
end

-- Takes a command that needs plans, one for each route: keeps its body and state, hands it to the planners, acknowledges the mailbox
-- entry if that is in this slot.
-- KEYS: 1 {q}send:<app>/<id>
-- Returns: {'new', ids of the plans} · {'known'} (this origin was accepted before) · {'duplicate', send} · {'conflict', send} ·
--          {'crowded'} (the app has too much open in this shard; nothing was written)
register_function{
    name = 'apus2_accept_send',
    flags = {'allow-oom'},
    required = 6,
    run = function(
        keys,
        app,
        digest, -- of the command's content, 8 bytes
        send, -- its id in the app
        origin, -- mailbox key / entry
        command, -- SendCommand
        routes, -- numbers
        key, -- digest of the idempotency key, 12 bytes
        plan_entries, -- ids that the plans had, when the call is repeated after a failover
        due_ms, -- when the plans begin; 0: now
        rate_per_second, -- recipients; 0: any
        mailbox, -- key of the mailbox, if it is in this slot
        group, -- of the entry there
        entry,
        entry_digest, -- of the entry's message ('' any): a server that has forgotten the entry may have given its id to another
        app_sends_max, -- that the app may have open in this shard; 0: any number
        app_bytes_max -- that their commands may have together; 0: any number
    )
        key = key or ''
        plan_entries = plan_entries or none
        app_sends_max = app_sends_max or 0
        app_bytes_max = app_bytes_max or 0
        due_ms = due_ms or 0
        rate_per_second = rate_per_second or 0
        mailbox = mailbox or ''
        group = group or ''
        entry = entry or ''
        entry_digest = entry_digest or ''
        local state = keys[1]
        local tag, now = tag_of(state), now_ms()
        local periods = key ~= '' and idempotency_periods(tag)
        if key ~= '' then
            local known_digest, known_send, known_origin = idempotency_find(tag, periods, key, send)
            if known_digest then
                if known_digest ~= digest then
                    return {'conflict', known_send}
                end
                if known_send ~= send or known_origin ~= origin then
                    return {'duplicate', known_send}
                end
            end
        end
        local answer, plans = 'new', {}
        local known = redis.call('HMGET', state, 'origin', 'digest')
        if known[1] then
            if known[1] ~= origin or known[2] ~= digest then
                return {known[2] == digest and 'duplicate' or 'conflict', send}
            end
            answer = 'known'
        elseif #plan_entries == 0 and is_crowded(tag, app, #command, app_sends_max, app_bytes_max) then
            return {'crowded'}
        else
            redis.call('HSET', state, 'app', app, 'origin', origin, 'digest', digest, 'state', 'running', 'rate',
                rate_per_second, 'planning', #routes, 'routes', table.concat(routes, ','), 'planned', '0',
                'closed', '0', 'accepted_at', digits(now))
            local name = send_of(state)
            open_send(tag, app, name, command)
            list_send(tag, app, send, now, due_ms)
            if due_ms > now then
                redis.call('HSET', state, 'not_before', digits(due_ms))
            end
            for index, route in ipairs(routes) do
                local plan = plan_entries[index] or ''
                redis.call('HSET', state, 'cursor:' .. route, '')
                -- A plan that was scheduled has no id until it moves, and the move is repeated next, also if it is due by now.
                if due_ms > now or (due_ms > 0 and plan_entries[index] == '') then
                    add_due(tag, due_ms, name .. '/plan/' .. route, 'plan:' .. route, name)
                else
                    plan = add_with_id(tag .. 'plan:' .. route, plan, name)
                end
                plans[index] = plan
            end
            if key ~= '' then
                idempotency_put(tag, periods, key, digest, send, origin, now)
            end
        end
        if mailbox ~= '' and has_message(mailbox, entry, entry_digest) then
            acknowledge(mailbox, group, entry)
        end
        return {answer, unpack(plans)}
    end,
}

-- Ends a direct send: writes its outcomes and its receipt, and acknowledges its mailbox entry.
-- KEYS: 1 {q}in:<lane>
-- Returns: 1 · 0 (another owns the entry; nothing was written)
register_function{
    name = 'apus2_finish_send',
    flags = {'allow-oom'},
    required = 3,
    has_bulk = true,
    run = function(
        keys,
        outcomes, -- OutcomeBatches, one of each route
        group,
        consumer,
        entry,
        receipt, -- SendReceipt; '': feedback writes it, or nobody wants one
        is_lost, -- the server seems to have forgotten the entry, so that nobody needs to own it
        entry_digest -- of the entry's message ('' any), where it seems to be lost
    )
        receipt = receipt or ''
        entry_digest = entry_digest or ''
        local mailbox = keys[1]
        local tag = tag_of(mailbox)
        -- A clock that has gone back may have given another command the id of the forgotten entry.
        is_lost = is_lost and not has_message(mailbox, entry, entry_digest)
        if is_lost then
            local name = name_of(mailbox) .. '/' .. entry .. '/' .. entry_digest
            if redis.call('SADD', tag .. 'lost_ends', name) == 0 then
                return 0
            end
            redis.call('PEXPIRE', tag .. 'lost_ends', LOST_ENDS_KEPT_MS)
        elseif not owns(mailbox, group, consumer, entry) then
            return 0
        end
        for _, batch in ipairs(outcomes) do
            redis.call('XADD', tag .. 'outcomes', '*', 'm', batch)
        end
        if receipt ~= '' then
            add_receipt(tag, receipt)
        end
        if not is_lost then
            acknowledge(mailbox, group, entry)
        end
        return 1
    end,
}

-- Ends several direct sends of one mailbox, as apus2_finish_send ends each.
-- KEYS: 1 {q}in:<lane>
-- Returns: for each what apus2_finish_send returns
register_function{
    name = 'apus2_finish_sends',
    flags = {'allow-oom'},
    required = 3,
    has_bulk = true,
    run = function(
        keys,
        messages, -- of each entry its OutcomeBatch, then its SendReceipt ('': feedback writes it, or nobody wants one)
        group,
        consumer,
        entries -- at most 64
    )
        local mailbox = keys[1]
        local tag, answer, owned = tag_of(mailbox), {}, {}
        for index, entry in ipairs(entries) do
            answer[index] = 0
            if owns(mailbox, group, consumer, entry) then
                answer[index] = 1
                owned[#owned + 1] = entry
                redis.call('XADD', tag .. 'outcomes', '*', 'm', messages[index * 2 - 1])
                if messages[index * 2] ~= '' then
                    add_receipt(tag, messages[index * 2])
                end
            end
        end
        acknowledge_all(mailbox, group, owned)
        return answer
    end,
}

-- Keeps a direct send that has something left to retry: its command, its state, the outcomes so far, the retries.
-- KEYS: 1 {q}send:<app>/<id>
-- Returns: 'new' · 'known' (it was kept before) · 'duplicate' (the same command came from another origin, and is kept under that id) ·
--          'conflict' (another command of the app is) · 'crowded' (the app has too much open in this shard). Only 'new' has written anything.
register_function{
    name = 'apus2_persist_send',
    flags = {'allow-oom'},
    required = 5,
    run = function(
        keys,
        app,
        digest, -- of the command's content, 8 bytes
        origin, -- mailbox key / entry
        command, -- SendCommand
        recipients, -- in all
        rate_per_second, -- recipients; 0: any
        outcomes, -- OutcomeBatches
        retry_delays_ms, -- of each retry, from now, in the same order as the next three
        retry_ids,
        retry_streams, -- names
        retry_units, -- WorkUnits
        app_sends_max, -- that the app may have open in this shard; 0: any number
        app_bytes_max -- that their commands may have together; 0: any number
    )
        rate_per_second = rate_per_second or 0
        app_sends_max = app_sends_max or 0
        app_bytes_max = app_bytes_max or 0
        outcomes = outcomes or none
        retry_delays_ms = retry_delays_ms or none
        retry_ids = retry_ids or none
        retry_streams = retry_streams or none
        retry_units = retry_units or none
        local state = keys[1]
        local tag = tag_of(state)
        local kept = redis.call('HMGET', state, 'origin', 'digest')
        if kept[1] then
            return kept[2] ~= digest and 'conflict' or kept[1] == origin and 'known' or 'duplicate'
        end
        if is_crowded(tag, app, #command, app_sends_max, app_bytes_max) then
            return 'crowded'
        end
        local now = now_ms()
        redis.call('HSET', state, 'app', app, 'origin', origin, 'digest', digest, 'state', 'running', 'rate',
            rate_per_second, 'planning', '0', 'planned', recipients, 'closed', '0', 'accepted_at', digits(now))
        open_send(tag, app, send_of(state), command)
        list_send(tag, app, string.sub(send_of(state), #app + 2), now, 0)
        for _, batch in ipairs(outcomes) do
            redis.call('XADD', tag .. 'outcomes', '*', 'm', batch)
        end
        if #retry_ids > 0 then
            note_time(tag, now)
        end
        for index, id in ipairs(retry_ids) do
            add_due(tag, now + retry_delays_ms[index], id, retry_streams[index], retry_units[index])
        end
        return 'new'
    end,
}
