-- Reads the names of topics.
--
-- KEYS[1]  `{t}<app>:meta`, t from the topics' numbers
-- ARGV     counters, at most 128
-- returns  a name for each, empty where there is none
local function topic_names(keys, args)
    if #args > 128 then return redis.error_reply('ERR apus1_topic_names: too many counters') end
    local buckets, answer = {}, {}
    for i, text in ipairs(args) do
        local counter = tonumber(text)
        if not counter then return redis.error_reply('ERR apus1_topic_names: malformed counter') end
        local key = store.bucket(keys[1], 'topics', topics.hash_of_counter(counter))
        if not buckets[key] then
            local entries, names = redis.call('HGETALL', key), {}
            for k = 1, #entries, 2 do names[tonumber(entries[k + 1])] = entries[k] end
            buckets[key] = names
        end
        answer[i] = buckets[key][counter] or ''
    end
    return answer
end

redis.register_function { function_name = 'apus1_topic_names', callback = topic_names, flags = { 'no-writes' } }
