-- Looks a topic up.
--
-- KEYS[1]  `{t}<app>:meta`, t from the name
-- ARGV[1]  digest of the name, 8 bytes
-- ARGV[2]  the name
-- returns  its counter; 0 when it has none; -1 when another name has the same digest
local function topic_counter(keys, args)
    if #args[1] ~= 8 or #args[2] == 0 then return redis.error_reply('ERR apus1_topic_find: malformed arguments') end
    return topic_find(keys[1], args[1], args[2]) or 0
end

redis.register_function { function_name = 'apus1_topic_find', callback = topic_counter, flags = { 'no-writes' } }
