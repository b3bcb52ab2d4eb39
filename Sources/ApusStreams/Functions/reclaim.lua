-- Makes entries this consumer's, whoever has them and even if nobody has read them: after a failover the server may have forgotten who did.
-- KEYS: 1 stream
-- ARGV: 1 group, 2 consumer, then entries
-- Returns: ids of those that exist
redis.register_function{function_name = 'apus1_reclaim', flags = {'allow-oom'}, callback = function(keys, args)
    local claimed = {}
    for index = 3, #args do
        local ids = redis.call('XCLAIM', keys[1], args[1], args[2], 0, args[index], 'FORCE', 'JUSTID')
        claimed[#claimed + 1] = ids[1]
    end
    return claimed
end}
