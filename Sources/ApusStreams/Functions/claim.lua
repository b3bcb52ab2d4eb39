-- Takes over entries whose owner is silent. When nobody has asked for a while (Redis was frozen, the clock jumped, everybody was cut
-- off), the owners get the time of a lease to speak up first.
-- KEYS: 1 stream
-- ARGV: 1 group, 2 consumer, 3 lease in ms, 4 how many at most, 5 cursor ('0-0' to begin)
-- Returns: {cursor, entries: {id, message, deliveries, journal ('' none)} …, ids that no longer exist}
redis.register_function{function_name = 'apus1_claim', flags = {'allow-oom'}, callback = function(keys, args)
    local stream, group, consumer, lease = keys[1], args[1], args[2], tonumber(args[3])
    local tag, name, now = tag_of(stream), name_of(stream), now_ms()
    local stamps = tag .. 'claims'
    local asked = tonumber(redis.call('HGET', stamps, name .. '/asked') or '0')
    local amnesty = tonumber(redis.call('HGET', stamps, name .. '/amnesty') or '0')
    if now < asked or now - asked > lease / 2 then
        amnesty = now + lease
        redis.call('HSET', stamps, name .. '/amnesty', digits(amnesty))
    end
    redis.call('HSET', stamps, name .. '/asked', digits(now))
    if now < amnesty and amnesty - now <= lease then
        return {args[5], {}, {}}
    end
    local reply = redis.call('XAUTOCLAIM', stream, group, consumer, args[3], args[5], 'COUNT', args[4])
    local entries = {}
    for _, entry in ipairs(reply[2]) do
        local pending = redis.call('XPENDING', stream, group, entry[1], entry[1], 1)
        local journal = redis.call('HGET', tag .. 'journal', name .. '/' .. entry[1])
        entries[#entries + 1] = {entry[1], entry[2][2], pending[1][4], journal or ''}
    end
    return {reply[1], entries, reply[3]}
end}
