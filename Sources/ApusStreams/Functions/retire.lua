-- Removes a consumer that owns nothing: XGROUP DELCONSUMER by itself would drop what it owns.
-- KEYS: 1 stream
-- ARGV: 1 group, 2 consumer
-- Returns: 1 removed · 0 it still owns entries
redis.register_function{function_name = 'apus1_retire', flags = {'allow-oom'}, callback = function(keys, args)
    if #redis.call('XPENDING', keys[1], args[1], '-', '+', 1, args[2]) > 0 then
        return 0
    end
    redis.call('XGROUP', 'DELCONSUMER', keys[1], args[1], args[2])
    return 1
end}
