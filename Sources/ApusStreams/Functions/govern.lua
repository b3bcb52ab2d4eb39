-- What an operator says of a route: dispatchers hear it with their next lease. Who lets it go on has looked at what the guard had against
-- it: only what comes after that can stop it again. Its suspects stay in quarantine. 'mended' is a dispatcher's word: it takes back what
-- dispatchers have said of our set-up, and nobody else's word.
-- KEYS: 1 {q}route:<route>
-- ARGV: 1 'pause', 'resume', 'mended', 'rate' or 'standard', 2 for 'rate': permits per second (0 none)
-- Returns: 1; of 'mended' 0 if the route was not stopped for our set-up
redis.register_function{function_name = 'apus1_govern', callback = function(keys, args)
    if args[1] == 'pause' then
        redis.call('HSET', keys[1], 'paused', '1')
        redis.call('HDEL', keys[1], 'paused_for')
    elseif args[1] == 'resume' then
        redis.call('HDEL', keys[1], 'paused', 'paused_for', 'refused', 'partner_fault')
        guard_forgive(keys[1], now_ms())
    elseif args[1] == 'mended' then
        local paused = redis.call('HGET', keys[1], 'paused')
        if paused ~= 'fault' and paused ~= 'credential' then
            return 0
        end
        redis.call('HDEL', keys[1], 'paused', 'paused_for', 'refused')
    elseif args[1] == 'rate' then
        redis.call('HSET', keys[1], 'rate', args[2])
    else
        redis.call('HDEL', keys[1], 'rate')
    end
    return 1
end}
