-- Takes a command that needs plans, one for each route: keeps its body and state, hands it to the planners, acknowledges the mailbox
-- if that is here.
-- KEYS: 1 {q}send:<id>
-- ARGV: 1 app, 2 idempotency key or '', 3 digest of the body, 4 send id, 5 origin (mailbox key / entry), 6 SendCommand,
--       7 due in ms or '0', 8 mailbox key in this slot or '', 9 group, 10 entry, 11 recipients per second (0 any), then the routes, when
--       the call is repeated each with the id that its plan had: "<route>/<id>"
-- Returns: {'new', ids of the plans} · {'again'} (this origin was accepted before) · {'duplicate', send} · {'conflict', send}
redis.register_function{function_name = 'apus1_accept', flags = {'allow-oom'}, callback = function(keys, args)
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
    local verdict, plans = 'new', {}
    local known = redis.call('HMGET', state, 'origin', 'digest')
    if known[1] then
        if known[1] ~= origin then
            return {known[2] == digest and 'duplicate' or 'conflict', send}
        end
        verdict = 'again'
    else
        local routes = {}
        for index = 12, #args do
            routes[index - 11], plans[index - 11] = string.match(args[index], '^(%d+)/?(.*)$')
        end
        redis.call('HSET', state, 'app', app, 'origin', origin, 'digest', digest, 'state', 'running', 'rate', args[11],
            'planning', digits(#routes), 'routes', table.concat(routes, ','), 'planned', '0', 'closed', '0',
            'accepted_at', digits(now))
        redis.call('SET', tag .. 'body:' .. send, args[6])
        redis.call('SADD', tag .. 'sends', send)
        for index, route in ipairs(routes) do
            redis.call('HSET', state, 'cursor:' .. route, '')
            if tonumber(args[7]) > now then
                add_due(tag, args[7], send .. '/plan/' .. route, 'plan:' .. route, send)
            else
                plans[index] = add_again(tag .. 'plan:' .. route, plans[index], send)
            end
        end
        if key ~= '' then
            idempotency_put(tag, app, key, digest, send, origin, now)
        end
    end
    if args[8] ~= '' then
        done(args[8], args[9], args[10])
    end
    return {verdict, unpack(plans)}
end}
