-- Sets what a device's badge has come to: the app says it. The sends counted stay counted.
--
-- KEYS[1]  meta of its place
-- ARGV[1]  ordinal
-- ARGV[2]  generation
-- ARGV[3]  the count
-- returns  1; 0 when there is no such device
local function badge_set(keys, args)
    local meta, ordinal, generation, count = keys[1], tonumber(args[1]), tonumber(args[2]), tonumber(args[3])
    if not ordinal or not generation or not count or count < 0 or count > badges.count_max then
        return redis.error_reply('ERR apus1_badge_set: malformed arguments')
    end
    local slab, field = store.record_place(meta, ordinal)
    local record = redis.call('HGET', slab, field)
    local _, held = struct.unpack('>I8I4', record or badges.no_header)
    if not record or held ~= generation then return 0 end
    local place = store.badge_key(meta, ordinal)
    local _, sends = badges.read(redis.call('HGET', place, field))
    if count == 0 and sends == '' then
        redis.call('HDEL', place, field)
    else
        redis.call('HSET', place, field, badges.entry(count, sends))
    end
    return 1
end

redis.register_function('apus1_badge_set', badge_set)
