-- These functions control sends for operators.

-- Sets an operator's command for a send. A command that is in force already changes nothing.
-- KEYS: 1 {q}send:<app>/<id>
-- Returns: {'ok', state} · {'none'} (there is no such send) · {'over', state} (cancelled or done: too late for that)
register_function{
    name = 'apus2_control_send',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        command, -- 'pause' · 'resume' · 'cancel' · 'rate'
        rate_per_second -- recipients, for 'rate'; 0: any
    )
        rate_per_second = rate_per_second or 0
        local state = keys[1]
        local known = redis.call('HGET', state, 'state')
        if not known then
            return {'none'}
        end
        if known == 'done' or (known == 'cancelled' and command ~= 'cancel') then
            return {'over', known}
        end
        if command == 'rate' then
            redis.call('HSET', state, 'rate', rate_per_second)
            return {'ok', known}
        end
        local wanted = ({pause = 'paused', resume = 'running', cancel = 'cancelled'})[command]
        redis.call('HSET', state, 'state', wanted)
        if command == 'cancel' then
            -- It stays known when the send has ended and is 'done'.
            redis.call('HSET', state, 'cancelled', '1')
        end
        return {'ok', wanted}
    end,
}

-- Moves held entries back to the ends of their streams, journals and all, unless the send is still paused.
-- KEYS: 1 {q}send:<app>/<id>
-- Returns: how many are still held · -1 (the send is paused; nothing was moved)
register_function{
    name = 'apus2_release_held',
    flags = {'allow-oom'},
    required = 1,
    run = function(keys, limit)
        local tag, send = tag_of(keys[1]), send_of(keys[1])
        if is_paused(tag, send) then
            return -1
        end
        return release_held(tag, send, limit)
    end,
}

-- Moves the scheduled messages of a send (retries, scheduled plans) to its streams at once; it searches a page of all scheduled messages at
-- a time.
-- KEYS: 1 {q}due
-- Returns: {cursor to continue from ('0': that was the last page), moved}
register_function{
    name = 'apus2_move_send_due',
    flags = {'allow-oom'},
    required = 3,
    run = function(
        keys,
        send, -- '<app>/<id>'
        cursor, -- '0' to begin
        limit -- entries to look at, roughly
    )
        local due = keys[1]
        local found = redis.call('ZSCAN', due, cursor, 'MATCH', send .. '/*', 'COUNT', limit)
        local moved = 0
        for index = 1, #found[2], 2 do
            moved = moved + (move_due(due, found[2][index], '') and 1 or 0)
        end
        return {found[1], moved}
    end,
}
