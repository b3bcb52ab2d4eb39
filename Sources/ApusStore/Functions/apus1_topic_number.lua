-- Looks a topic up and gives it a counter when it has none.
--
-- KEYS[1]  `{t}<app>:meta`, t from the name
-- ARGV[1]  digest of the name, 8 bytes
-- ARGV[2]  the name
-- ARGV[3]  the highest counter there may be
-- returns  its counter; -1 when all counters are given
local function topic_number(keys, args)
    local meta, digest, name, most = keys[1], args[1], args[2], tonumber(args[3])
    if #digest ~= 8 or #name == 0 or not most then
        return redis.error_reply('ERR apus1_topic_number: malformed arguments')
    end
    local hash = topics.hash(digest)
    local bucket = store.bucket(meta, 'topics', hash)
    local known = redis.call('HGET', bucket, name)
    if known then return tonumber(known) end
    local rank = 0
    for _, counter in ipairs(redis.call('HVALS', bucket)) do
        if topics.hash_of_counter(tonumber(counter)) == hash then rank = rank + 1 end
    end
    local counter = rank * topics.hashes + hash + 1
    if counter > most then return -1 end
    redis.call('HSET', bucket, name, counter)
    store.field_added(meta, 'topics', function(_, value) return topics.hash_of_counter(tonumber(value)) end, topics.hashes)
    return counter
end

redis.register_function('apus1_topic_number', topic_number)
