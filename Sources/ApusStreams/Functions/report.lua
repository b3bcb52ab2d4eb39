-- Appends what apps reported, unless too much waits. Again after a lost answer it stands there twice: whoever reads it counts
-- an event's id once.
-- KEYS: 1 {q}events
-- ARGV: 1 entries that may wait, then ClientEvents
-- Returns: {'new', how many} · {'full', how many wait}
redis.register_function{function_name = 'apus1_report', callback = function(keys, args)
    local length = redis.call('XLEN', keys[1])
    if length + #args - 1 > tonumber(args[1]) then
        return {'full', length}
    end
    for index = 2, #args do
        redis.call('XADD', keys[1], '*', 'm', args[index])
    end
    return {'new', #args - 1}
end}
