-- Takes a command that needs a plan: keeps its body and state, hands it to the planners, acknowledges the mailbox if that is here.
-- KEYS: 1 {q}send:<id>
-- ARGV: 1 app, 2 idempotency key or '', 3 digest of the body, 4 send id, 5 origin (mailbox key / entry), 6 SendCommand,
--       7 due in ms or '0', 8 mailbox key in this slot or '', 9 group, 10 entry
-- Returns: {'new'} · {'again'} (this origin was accepted before) · {'duplicate', send} · {'conflict', send}
redis.register_function{function_name = 'apus1_accept', callback = function(keys, args)
    local state, app, key, digest, send, origin = keys[1], args[1], args[2], args[3], args[4], args[5]
    local tag, now = tag_of(state), now_ms()
    if key ~= '' then
        local known_digest, known_send, known_origin = idempotency_find(tag, app, key, now)
        if known_digest then
            if known_digest ~= digest then
                return {'conflict', known_send}
            end
            if known_send ~= send or known_origin ~= origin then
                return {'duplicate', known_send}
            end
        end
    end
    local verdict = 'new'
    local known = redis.call('HMGET', state, 'origin', 'digest')
    if known[1] then
        if known[1] ~= origin then
            return {known[2] == digest and 'duplicate' or 'conflict', send}
        end
        verdict = 'again'
    else
        redis.call('HSET', state, 'app', app, 'origin', origin, 'digest', digest, 'state', 'running', 'planning', '1',
            'planned', '0', 'closed', '0', 'cursor', '', 'accepted_at', digits(now))
        redis.call('SET', tag .. 'body:' .. send, args[6])
        if tonumber(args[7]) > now then
            add_due(tag, args[7], 'plan/' .. send, 'plan', send)
        else
            redis.call('XADD', tag .. 'plan', '*', 'm', send)
        end
        if key ~= '' then
            idempotency_put(tag, app, key, digest, send, origin, now)
        end
    end
    if args[8] ~= '' then
        done(args[8], args[9], args[10])
    end
    return {verdict}
end}
