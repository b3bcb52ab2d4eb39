-- Makes entries this consumer's, even if nobody has read them: after a failover the server may have forgotten who did. What another
-- has renewed within a lease stays the other's: that one is alive. A server that has forgotten that they were read would give them to the
-- next reader, owner or not; so the group is told, as far as what follows its last read is somebody's without a gap.
-- KEYS: 1 stream
-- ARGV: 1 group, 2 consumer, 3 lease in ms, then entries
-- Returns: ids of those that exist and are this consumer's now
local READ_AGAIN_MAX = 500 -- entries that one call tells the group of

local function tell_read(stream, group)
    local last
    for _, fields in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
        local known = {}
        for index = 1, #fields, 2 do
            known[fields[index]] = fields[index + 1]
        end
        if known['name'] == group then
            last = known['last-delivered-id']
        end
    end
    local read = last
    for _, entry in ipairs(redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', READ_AGAIN_MAX)) do
        if #redis.call('XPENDING', stream, group, entry[1], entry[1], 1) == 0 then
            break
        end
        read = entry[1]
    end
    if read ~= last then
        redis.call('XGROUP', 'SETID', stream, group, read)
    end
end

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
    if #claimed > 0 then
        tell_read(keys[1], group)
    end
    return claimed
end}
