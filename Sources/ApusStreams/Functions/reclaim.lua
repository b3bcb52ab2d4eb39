-- Makes entries this consumer's, even if nobody has read them: after a failover the server may have forgotten who did. What another
-- has renewed within a lease stays the other's: that one is alive.
-- KEYS: 1 stream
-- ARGV: 1 group, 2 consumer, 3 lease in ms, then entries
-- Returns: ids of those that exist and are this consumer's now
redis.register_function{function_name = 'apus1_reclaim', flags = {'allow-oom'}, callback = function(keys, args)
    local group, consumer, lease = args[1], args[2], tonumber(args[3])
    local claimed = {}
    for index = 4, #args do
        local pending = redis.call('XPENDING', keys[1], group, args[index], args[index], 1)[1]
        if not pending or pending[2] == consumer or pending[3] >= lease then
            local ids = redis.call('XCLAIM', keys[1], group, consumer, 0, args[index], 'FORCE', 'JUSTID')
            claimed[#claimed + 1] = ids[1]
        end
    end
    return claimed
end}
