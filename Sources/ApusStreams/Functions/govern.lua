-- What an operator says of a route: dispatchers hear it with their next lease. Who lets it go on has looked at what the guard had against
-- it: only what comes after that can stop it again. Its suspects stay in quarantine.
-- KEYS: 1 {q}route:<route>
-- ARGV: 1 'pause', 'resume', 'rate' or 'standard', 2 for 'rate': permits per second (0 none)
-- Returns: 1
redis.register_function{function_name = 'apus1_govern', callback = function(keys, args)
    if args[1] == 'pause' then
        redis.call('HSET', keys[1], 'paused', '1')
        redis.call('HDEL', keys[1], 'paused_for')
    elseif args[1] == 'resume' then
        redis.call('HDEL', keys[1], 'paused', 'paused_for', 'partner_fault')
        guard_forgive(keys[1], now_ms())
    elseif args[1] == 'rate' then
        redis.call('HSET', keys[1], 'rate', args[2])
    else
        redis.call('HDEL', keys[1], 'rate')
    end
    return 1
end}
