-- Takes over entries whose owner is silent, from all the streams that a consumer has room for. When nobody has asked for a while
-- (Redis was frozen, the clock jumped, everybody was cut off), the owners get the time of a lease to speak up first. A suspect waits to
-- run alone, so its delivery counts when it begins (apus1_renew).
-- KEYS: streams of one shard
-- ARGV: 1 group, 2 consumer, 3 lease in ms, then per stream: how many at most, cursor ('0-0' to begin)
-- Returns: per stream {cursor ('' there is no such stream or group), entries: {id, message, deliveries, journal ('' none)} …,
--          ids that no longer exist}
redis.register_function{function_name = 'apus1_claim', flags = {'allow-oom'}, callback = function(keys, args)
    local group, consumer, lease = args[1], args[2], tonumber(args[3])
    local tag, now = tag_of(keys[1]), now_ms()
    local stamps = tag .. 'claims'
    local asked = tonumber(redis.call('HGET', stamps, group .. '/asked') or digits(now))
    local amnesty = tonumber(redis.call('HGET', stamps, group .. '/amnesty') or '0')
    if now < asked or now - asked > lease / 2 then
        amnesty = now + lease
        redis.call('HSET', stamps, group .. '/amnesty', digits(amnesty))
    end
    redis.call('HSET', stamps, group .. '/asked', digits(now))
    local left = CLAIM_ENTRIES_MAX
    if now < amnesty and amnesty - now <= lease then
        left = 0
    end
    local answer = {}
    for index, stream in ipairs(keys) do
        local count, cursor = math.min(tonumber(args[2 + index * 2]), left), args[3 + index * 2]
        local entries, vanished = {}, {}
        if count > 0 then
            local reply = redis.pcall('XAUTOCLAIM', stream, group, consumer, args[3], cursor, 'COUNT', count)
            if reply.err then
                cursor = ''
            else
                cursor, vanished = reply[1], reply[3]
                for _, entry in ipairs(reply[2]) do
                    local pending = redis.call('XPENDING', stream, group, entry[1], entry[1], 1)
                    local deliveries = pending[1][4]
                    if deliveries > DELIVERIES_TOGETHER_MAX and deliveries < DELIVERIES_MAX then
                        redis.call('XCLAIM', stream, group, consumer, 0, entry[1], 'RETRYCOUNT', digits(deliveries - 1),
                            'JUSTID')
                    end
                    local journal = redis.call('HGET', tag .. 'journal', name_of(stream) .. '/' .. entry[1])
                    entries[#entries + 1] = {entry[1], entry[2][2], deliveries, journal or ''}
                end
                left = left - #entries
            end
        end
        answer[index] = {cursor, entries, vanished}
    end
    return answer
end}
