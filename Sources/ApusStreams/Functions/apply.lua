-- Whether it is time to tell how far a send is; notes that it was told. What was told at a time to come was told now.
-- total: planning, planned, closed
local function tells_progress(state, total, every, percent)
    local now = now_ms()
    local told = redis.call('HMGET', state, 'told_at', 'told_closed')
    if not told[1] or tonumber(told[1]) > now then
        redis.call('HSET', state, 'told_at', digits(now))
        if every > 0 then
            return false
        end
        told[1] = digits(now)
    end
    local planned, closed = tonumber(total[2]), tonumber(total[3])
    local since = closed - tonumber(told[2] or '0')
    if now - tonumber(told[1]) < every or since * 100 < planned * percent then
        return false
    end
    redis.call('HSET', state, 'told_at', digits(now), 'told_closed', digits(closed))
    return true
end

-- Moves the ledger of a send by one batch of outcomes and acknowledges it: both or neither. The batch that completes the send stays
-- unacknowledged until its receipt is out (apus1_done), and gives the same answer again until then.
-- KEYS: 1 {q}outcomes, 2 {q}send:<id>
-- ARGV: 1 group, 2 consumer, 3 entry, 4 first outcome in ms or '', 5 last outcome in ms or '', 6 ms to keep the ledger of an ended send,
--       7 number of counts, then per count: "<provider>/<outcome>/<reason>", number;
--       then, if the send is told of while it is under way: ms between two tellings, percent of the recipients that must have ended since
-- Returns: {'ok'} · {'progress', fields and values of the ledger} (acknowledged: not told again if the teller dies) ·
--          {'final', fields and values of the ledger} · {'lost'} · {'gone'} (no such send, or it was complete before; acknowledged)
redis.register_function{function_name = 'apus1_apply', flags = {'allow-oom'}, callback = function(keys, args)
    local outcomes, state = keys[1], keys[2]
    local group, consumer, entry = args[1], args[2], args[3]
    if not owns(outcomes, group, consumer, entry) then
        return {'lost'}
    end
    local known = redis.call('HMGET', state, 'state', 'completed_by', 'first_at', 'last_at')
    if not known[1] then
        done(outcomes, group, entry)
        return {'gone'}
    end
    if known[2] == entry then
        return {'final', redis.call('HGETALL', state)}
    end
    if known[1] == 'done' then
        -- What was brought back after its end: its recipients are counted already.
        done(outcomes, group, entry)
        return {'gone'}
    end
    local closed, counts = 0, tonumber(args[7])
    for index = 0, counts - 1 do
        local count = tonumber(args[9 + index * 2])
        redis.call('HINCRBY', state, args[8 + index * 2], args[9 + index * 2])
        closed = closed + count
    end
    redis.call('HINCRBY', state, 'closed', digits(closed))
    if args[4] ~= '' and (not known[3] or tonumber(args[4]) < tonumber(known[3])) then
        redis.call('HSET', state, 'first_at', args[4])
    end
    if args[5] ~= '' and (not known[4] or tonumber(args[5]) > tonumber(known[4])) then
        redis.call('HSET', state, 'last_at', args[5])
    end
    local total = redis.call('HMGET', state, 'planning', 'planned', 'closed', 'unplanned')
    if total[1] == '0' and tonumber(total[3]) >= tonumber(total[2]) then
        redis.call('HSET', state, 'state', 'done', 'completed_by', entry)
        redis.call('PEXPIRE', state, args[6])
        local body = tag_of(state) .. 'body:' .. send_of(state)
        if known[1] ~= 'cancelled' and tonumber(total[4] or '0') > 0 then
            -- A plan of it is a dead letter, with which it can go on as long as its ledger is there.
            redis.call('PEXPIRE', body, args[6])
        else
            redis.call('DEL', body)
        end
        redis.call('SREM', tag_of(state) .. 'sends', send_of(state))
        return {'final', redis.call('HGETALL', state)}
    end
    done(outcomes, group, entry)
    local every, percent = args[8 + counts * 2], args[9 + counts * 2]
    if every and tells_progress(state, total, tonumber(every), tonumber(percent)) then
        return {'progress', redis.call('HGETALL', state)}
    end
    return {'ok'}
end}
