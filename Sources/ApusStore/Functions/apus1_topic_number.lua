-- Looks a topic up and gives it a counter when it has none.
--
-- KEYS[1]  `{t}<app>:meta`, t from the name
-- ARGV[1]  digest of the name, 8 bytes
-- ARGV[2]  the name
-- ARGV[3]  the highest counter there may be
-- returns  its counter; -1 when another name has the same digest; -2 when all counters are given
local function topic_number(keys, args)
    local meta, digest, name, most = keys[1], args[1], args[2], tonumber(args[3])
    if #digest ~= 8 or #name == 0 or not most then
        return redis.error_reply('ERR apus1_topic_number: malformed arguments')
    end
    local known = topic_find(meta, digest, name)
    if known then return known end
    local counter = tonumber(redis.call('HGET', meta, 'topics_count') or 0) + 1
    if counter > most then return -2 end
    redis.call('HSET', store.prefix(meta) .. 'names:' .. math.floor(counter / 64), counter % 64, name)
    redis.call('HSET', store.bucket(meta, 'topics', store.digest_hash(digest)), digest, counter)
    store.field_added(meta, 'topics', store.digest_hash)
    return counter
end

redis.register_function('apus1_topic_number', topic_number)
