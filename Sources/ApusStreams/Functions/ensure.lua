-- Makes a group on each of the streams, from their beginnings, and the streams, where they are missing. One that cannot have it keeps no
-- other from it. Runs at a full Redis too: a missing group keeps the streams from being read that are read with it.
-- KEYS: streams of one shard
-- ARGV: 1 group
-- Returns: how many were missing; else the last error
redis.register_function{function_name = 'apus1_ensure', flags = {'allow-oom'}, callback = function(keys, args)
    local made, failure = 0, nil
    for _, stream in ipairs(keys) do
        local answer = redis.pcall('XGROUP', 'CREATE', stream, args[1], '0', 'MKSTREAM')
        if not answer.err then
            made = made + 1
        elseif not string.find(answer.err, 'BUSYGROUP', 1, true) then
            failure = answer
        end
    end
    return failure or made
end}
