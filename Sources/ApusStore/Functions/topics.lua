-- Numbers of topics: the bucketed hash `topics` of `{t}<app>:meta`, name → counter. With the partition of the name a counter
-- makes the topic's number.
--
-- A counter is rank * 4096 + h + 1: h are twelve bits of the name's digest, the rank tells names of the same h apart. So
-- a counter leads to its name's bucket as the name does, and both directions take one structure.
local topics = { hashes = 4096 }

-- The hash of a name by the digest of the name.
function topics.hash(digest)
    return store.digest_hash(digest) % topics.hashes
end

-- The hash of a name by its counter.
function topics.hash_of_counter(counter)
    return (counter - 1) % topics.hashes
end

-- Looks a topic up.
-- KEYS: 1 `{t}<app>:meta`, t from the name
-- Returns: its counter; 0 when it has none
register_function{
    name = 'apus2_find_topic',
    flags = {'no-writes'},
    required = 2,
    run = function(
        keys,
        digest, -- of the name, 8 bytes
        name
    )
        local meta = keys[1]
        if #digest ~= 8 or #name == 0 then return redis.error_reply('ERR apus2_find_topic: malformed arguments') end
        return tonumber(redis.call('HGET', store.bucket(meta, 'topics', topics.hash(digest)), name) or 0)
    end,
}

-- Looks a topic up and gives it a counter when it has none.
-- KEYS: 1 `{t}<app>:meta`, t from the name
-- Returns: its counter; -1 when all counters are given
register_function{
    name = 'apus2_number_topic',
    required = 3,
    run = function(
        keys,
        digest, -- of the name, 8 bytes
        name,
        counter_max -- the highest counter there may be
    )
        local meta = keys[1]
        if #digest ~= 8 or #name == 0 then
            return redis.error_reply('ERR apus2_number_topic: malformed arguments')
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
        if counter > counter_max then return -1 end
        redis.call('HSET', bucket, name, counter)
        store.field_added(meta, 'topics', function(_, value) return topics.hash_of_counter(tonumber(value)) end, topics.hashes)
        return counter
    end,
}

-- Reads the names of topics.
-- KEYS: 1 `{t}<app>:meta`, t from the topics' numbers
-- Returns: a name for each, empty where there is none
register_function{
    name = 'apus2_topic_names',
    flags = {'no-writes'},
    required = 1,
    run = function(
        keys,
        counters -- at most 128
    )
        if #counters > 128 then return redis.error_reply('ERR apus2_topic_names: too many counters') end
        local buckets, answer = {}, {}
        for i, counter in ipairs(counters) do
            local key = store.bucket(keys[1], 'topics', topics.hash_of_counter(counter))
            if not buckets[key] then
                local entries, names = redis.call('HGETALL', key), {}
                for k = 1, #entries, 2 do names[tonumber(entries[k + 1])] = entries[k] end
                buckets[key] = names
            end
            answer[i] = buckets[key][counter] or ''
        end
        return answer
    end,
}
