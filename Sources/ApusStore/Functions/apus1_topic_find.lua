-- Looks a topic up.
--
-- KEYS[1]  `{t}<app>:meta`, t from the name
-- ARGV[1]  digest of the name, 8 bytes
-- ARGV[2]  the name
-- returns  its counter; 0 when it has none
local function topic_find(keys, args)
    local meta, digest, name = keys[1], args[1], args[2]
    if #digest ~= 8 or #name == 0 then return redis.error_reply('ERR apus1_topic_find: malformed arguments') end
    return tonumber(redis.call('HGET', store.bucket(meta, 'topics', topics.hash(digest)), name) or 0)
end

redis.register_function { function_name = 'apus1_topic_find', callback = topic_find, flags = { 'no-writes' } }
