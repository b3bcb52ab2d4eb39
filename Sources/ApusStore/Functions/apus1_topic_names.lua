-- Reads the names of topics.
--
-- KEYS[1]  `{t}<app>:meta`, t from the topics' numbers
-- ARGV     counters, at most 256
-- returns  a name for each, empty where there is none
local function topic_names(keys, args)
    if #args > 256 then return redis.error_reply('ERR apus1_topic_names: too many counters') end
    local names = {}
    for i, text in ipairs(args) do
        local counter = tonumber(text)
        if not counter then return redis.error_reply('ERR apus1_topic_names: malformed counter') end
        local key = store.prefix(keys[1]) .. 'names:' .. math.floor(counter / 64)
        names[i] = redis.call('HGET', key, counter % 64) or ''
    end
    return names
end

redis.register_function { function_name = 'apus1_topic_names', callback = topic_names, flags = { 'no-writes' } }
