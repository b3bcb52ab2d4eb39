-- Tells a send what an operator wants of it. Asking for what is so already changes nothing.
-- KEYS: 1 {q}send:<id>
-- ARGV: 1 app, 2 'pause' · 'resume' · 'cancel' · 'rate', 3 recipients per second for 'rate' (0 any)
-- Returns: {'ok', state} · {'none'} (there is no such send) · {'over', state} (cancelled or done: too late for that)
redis.register_function{function_name = 'apus1_steer', flags = {'allow-oom'}, callback = function(keys, args)
    local state, wish = keys[1], args[2]
    local known = redis.call('HMGET', state, 'app', 'state')
    if not known[2] or known[1] ~= args[1] then
        return {'none'}
    end
    if known[2] == 'done' or (known[2] == 'cancelled' and wish ~= 'cancel') then
        return {'over', known[2]}
    end
    if wish == 'rate' then
        redis.call('HSET', state, 'rate', args[3])
        return {'ok', known[2]}
    end
    local wanted = ({pause = 'paused', resume = 'running', cancel = 'cancelled'})[wish]
    redis.call('HSET', state, 'state', wanted)
    return {'ok', wanted}
end}
