-- Ends the quarantine of a route whose suspects are all settled; what stood against it counts no more.
-- KEYS: 1 {q}route:<route>
-- ARGV: 1 'resume' to let the route go on if it was the guard that stopped it, else 'hold', 2 the time in ms ('' this server's)
-- Returns: how many suspects are left; if there are any, nothing has changed
redis.register_function{function_name = 'apus1_suspects_forgive', flags = {'allow-oom'}, callback = function(keys, args)
    local left = redis.call('ZCARD', (guard_keys(keys[1])))
    if left > 0 then
        return left
    end
    redis.call('HDEL', keys[1], 'quarantined_at', 'quarantined_for')
    if args[1] == 'resume' and redis.call('HGET', keys[1], 'paused') == 'guard' then
        redis.call('HDEL', keys[1], 'paused')
    elseif args[1] == 'hold' then
        redis.call('HSET', keys[1], 'paused', '1')
        redis.call('HDEL', keys[1], 'paused_for')
    end
    guard_forgive(keys[1], tonumber(args[2]) or now_ms())
    return 0
end}
