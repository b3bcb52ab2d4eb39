-- Turns a direct send with something left to retry into a kept one: body, state, the outcomes so far, the retries.
-- KEYS: 1 {q}send:<id>
-- ARGV: 1 app, 2 digest of the body, 3 send id, 4 origin, 5 SendCommand, 6 recipients in all, 7 recipients per second (0 any),
--       8 number of OutcomeBatches, then those, then the number of retries, then per retry: due in ms, id, name of the stream, WorkUnit
-- Returns: 'new' · 'again' (it was kept before; nothing was written) · 'taken' (another send has that id; nothing was written)
redis.register_function{function_name = 'apus1_promote', flags = {'allow-oom'}, callback = function(keys, args)
    local state = keys[1]
    local tag = tag_of(state)
    if redis.call('EXISTS', state) == 1 then
        return redis.call('HGET', state, 'origin') == args[4] and 'again' or 'taken'
    end
    redis.call('HSET', state, 'app', args[1], 'origin', args[4], 'digest', args[2], 'state', 'running', 'rate', args[7],
        'planning', '0', 'planned', args[6], 'closed', '0', 'accepted_at', digits(now_ms()))
    redis.call('SET', tag .. 'body:' .. args[3], args[5])
    redis.call('SADD', tag .. 'sends', args[3])
    local batches = tonumber(args[8])
    for index = 1, batches do
        redis.call('XADD', tag .. 'outcomes', '*', 'm', args[8 + index])
    end
    local first = 9 + batches
    for index = 0, tonumber(args[first]) - 1 do
        local at = first + 1 + index * 4
        add_due(tag, args[at], args[at + 1], args[at + 2], args[at + 3])
    end
    return 'new'
end}
