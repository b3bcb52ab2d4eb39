-- The numbers of topics stand in the bucketed hash `topics` of `{t}<app>:meta`, name → counter. With the partition of the name a counter
-- makes the topic's number.
--
-- A counter is rank * 4096 + h + 1: h are twelve bits of the name's digest, the rank tells names of the same h apart. So
-- a counter leads to its name's bucket as the name does, and both directions take one structure. A counter is never given twice: records
-- and plans may still have the number of a topic that was forgotten. So `topic_ranks` has, for each h of which a name was forgotten, the
-- least rank that was not given yet.
--
-- `topics_idle` has the topics that were found without devices, name → since when. A device that is to enter a topic removes it from there,
-- so a topic that stays there is one that nobody enters.
--
-- Beside all that the app has a list of its topics in one place, `{t}<app>:topic_list`, name → owner, t from the app, and
-- `{t}<app>:topic_owners`, owner → how many of these it has. It bounds their number, and empty topics are found by it. A topic is entered
-- there before it gets a number, and removed after its number is forgotten. An owner has eight bytes; a ninth one follows in the list when
-- the user's device asked for the topic itself, and the field `users` counts these of all users.
local topics = { hashes = 4096, names_max = 128, users = 'users' }

-- Counts one topic less of an owner.
function topics.owner_left(owners, owner)
    if redis.call('HINCRBY', owners, owner, -1) <= 0 then redis.call('HDEL', owners, owner) end
end

-- Returns the hash of a name by the digest of the name.
function topics.hash(digest)
    return store.digest_hash(digest) % topics.hashes
end

-- Returns the hash of a name by its counter.
function topics.hash_of_counter(counter)
    return (counter - 1) % topics.hashes
end

-- Returns the rank of a counter.
function topics.rank_of_counter(counter)
    return math.floor((counter - 1) / topics.hashes)
end

-- Enters a topic in the list of an app, unless there is no room. Repeating it changes nothing.
-- KEYS: 1 `{t}<app>:meta`, t from the app
-- Returns: 1 it is there; 0 the app has the maximum of topics; -1 the owner has; -2 its users together have
register_function{
    name = 'apus2_reserve_topic',
    required = 3,
    run = function(
        keys,
        name,
        topics_max, -- of the app
        owner_topics_max, -- of one owner
        owner, -- whoever is the first to enter it, 8 bytes; empty: nobody who is counted
        users_topics_max -- of all users whose devices ask for them; 0: a backend asks for it
    )
        owner = owner or ''
        users_topics_max = users_topics_max or 0
        local list, owners = store.prefix(keys[1]) .. 'topic_list', store.prefix(keys[1]) .. 'topic_owners'
        if redis.call('HEXISTS', list, name) == 1 then return 1 end
        if redis.call('HLEN', list) >= topics_max then return 0 end
        if owner ~= '' then
            if tonumber(redis.call('HGET', owners, owner) or 0) >= owner_topics_max then return -1 end
            if users_topics_max > 0 then
                if tonumber(redis.call('HGET', owners, topics.users) or 0) >= users_topics_max then return -2 end
                redis.call('HINCRBY', owners, topics.users, 1)
            end
            redis.call('HINCRBY', owners, owner, 1)
            if users_topics_max > 0 then owner = owner .. 'u' end
        end
        redis.call('HSET', list, name, owner)
        return 1
    end,
}

-- Removes a topic from the list of an app. It runs on a full Redis too, because it frees memory.
-- KEYS: 1 `{t}<app>:meta`, t from the app
-- Returns: 1 when it was there, else 0
register_function{
    name = 'apus2_release_topic',
    flags = {'allow-oom'},
    required = 1,
    run = function(keys, name)
        local list, owners = store.prefix(keys[1]) .. 'topic_list', store.prefix(keys[1]) .. 'topic_owners'
        local owner = redis.call('HGET', list, name)
        if not owner then return 0 end
        redis.call('HDEL', list, name)
        if owner ~= '' then topics.owner_left(owners, string.sub(owner, 1, 8)) end
        if #owner > 8 then topics.owner_left(owners, topics.users) end
        return 1
    end,
}

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
        name,
        enters -- a device is to enter it: then one that is thought to be empty has to be numbered again, and the answer is 0
    )
        local meta = keys[1]
        if #digest ~= 8 or #name == 0 then return redis.error_reply('ERR apus2_find_topic: malformed arguments') end
        if enters and redis.call('HEXISTS', store.prefix(meta) .. 'topics_idle', name) == 1 then return 0 end
        return tonumber(redis.call('HGET', store.bucket(meta, 'topics', topics.hash(digest)), name) or 0)
    end,
}

-- Looks topics up that devices are to enter.
-- KEYS: 1 `{t}<app>:meta`, t from the names
-- Returns: for each its counter; 0 when it has none, or is thought to be empty and has to be numbered again
register_function{
    name = 'apus2_find_topics',
    flags = {'no-writes'},
    required = 1,
    run = function(
        keys,
        topics_wanted -- at most 64: digest of the name (8 bytes) and the name in one text each
    )
        local meta = keys[1]
        if #topics_wanted > store.devices_max then return redis.error_reply('ERR apus2_find_topics: too many topics') end
        local n, answer, idle = store.buckets(meta, 'topics'), {}, store.prefix(meta) .. 'topics_idle'
        for i, wanted in ipairs(topics_wanted) do
            if #wanted < 9 then return redis.error_reply('ERR apus2_find_topics: malformed arguments') end
            local name = string.sub(wanted, 9)
            if redis.call('HEXISTS', idle, name) == 1 then
                answer[i] = 0
            else
                local bucket = store.bucket(meta, 'topics', topics.hash(string.sub(wanted, 1, 8)), n)
                answer[i] = tonumber(redis.call('HGET', bucket, name) or 0)
            end
        end
        return answer
    end,
}

-- Looks a topic up that a device is to enter, and gives it a counter when it has none.
-- KEYS: 1 `{t}<app>:meta`, t from the name
-- Returns: its counter; -1 when all counters are given
register_function{
    name = 'apus2_number_topic',
    required = 3,
    run = function(
        keys,
        digest, -- of the name, 8 bytes
        name,
        counter_max -- the highest counter there may be; 0: a topic without one gets none
    )
        local meta = keys[1]
        if #digest ~= 8 or #name == 0 then
            return redis.error_reply('ERR apus2_number_topic: malformed arguments')
        end
        redis.call('HDEL', store.prefix(meta) .. 'topics_idle', name)
        local hash = topics.hash(digest)
        local bucket = store.bucket(meta, 'topics', hash)
        local known = redis.call('HGET', bucket, name)
        if known then return tonumber(known) end
        local rank = tonumber(redis.call('HGET', store.prefix(meta) .. 'topic_ranks', hash) or 0)
        for _, text in ipairs(redis.call('HVALS', bucket)) do
            local counter = tonumber(text)
            if topics.hash_of_counter(counter) == hash then rank = math.max(rank, topics.rank_of_counter(counter) + 1) end
        end
        local counter = rank * topics.hashes + hash + 1
        if counter > counter_max then return -1 end
        redis.call('HSET', bucket, name, counter)
        store.field_added(meta, 'topics', function(_, value) return topics.hash_of_counter(tonumber(value)) end, topics.hashes)
        return counter
    end,
}

-- Forgets a topic that was found without devices, once it has been without, and nobody wanted to enter it, for so long that no work still
-- has its number. It runs on a full Redis too, because it frees memory.
-- KEYS: 1 `{t}<app>:meta`, t from the name
-- Returns: 1 it is forgotten; 0 not yet
register_function{
    name = 'apus2_forget_topic',
    flags = {'allow-oom'},
    required = 3,
    run = function(
        keys,
        digest, -- of the name, 8 bytes
        name,
        rest_ms -- how long that is
    )
        local meta = keys[1]
        if #digest ~= 8 or #name == 0 then return redis.error_reply('ERR apus2_forget_topic: malformed arguments') end
        local idle, now = store.prefix(meta) .. 'topics_idle', store.now()
        local since = tonumber(redis.call('HGET', idle, name) or now)
        if since > now then since = now end
        if now - since < rest_ms then
            redis.call('HSET', idle, name, string.format('%.0f', since))
            return 0
        end
        redis.call('HDEL', idle, name)
        local hash = topics.hash(digest)
        local bucket = store.bucket(meta, 'topics', hash)
        local counter = tonumber(redis.call('HGET', bucket, name) or 0)
        if counter > 0 then
            redis.call('HDEL', bucket, name)
            store.field_removed(meta, 'topics')
            local ranks = store.prefix(meta) .. 'topic_ranks'
            local rank = math.max(topics.rank_of_counter(counter) + 1, tonumber(redis.call('HGET', ranks, hash) or 0))
            redis.call('HSET', ranks, hash, rank)
        end
        return 1
    end,
}

-- Returns which topics have devices, in all places of a partition at the same moment: a device that moves from one to another is in one of
-- them.
-- KEYS: metas of the places
-- Returns: 1 or 0 for each topic
register_function{
    name = 'apus2_used_topics',
    flags = {'no-writes'},
    required = 1,
    run = function(
        keys,
        numbers -- of topics, at most 128
    )
        if #numbers > topics.names_max then return redis.error_reply('ERR apus2_used_topics: too many topics') end
        local answer = {}
        for i = 1, #numbers do answer[i] = 0 end
        for _, meta in ipairs(keys) do
            local known = redis.call('HMGET', meta, 'next', 'few')
            local chunks, buckets = math.ceil(tonumber(known[1] or 0) / store.chunk), tonumber(known[2] or 1)
            for i, number in ipairs(numbers) do
                local chunk = 0
                while answer[i] == 0 and chunk < chunks do
                    local field, bucket = store.few_place(meta, number, chunk, buckets)
                    if redis.call('HEXISTS', bucket, field) == 1
                        or redis.call('EXISTS', store.posting_key(meta, number, chunk)) == 1 then
                        answer[i] = 1
                    end
                    chunk = chunk + 1
                end
            end
        end
        return answer
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
        if #counters > topics.names_max then return redis.error_reply('ERR apus2_topic_names: too many counters') end
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
