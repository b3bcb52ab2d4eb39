-- Numbers of topics. Counters are handed out per app and partition of the topic's name, from 1; with the partition they
-- make the topic's number. Names are kept by counter, 64 to a hash, and found by digest (`topics`).

-- The counter of a name; nothing when it has none; -1 when another name has the same digest.
local function topic_find(meta, digest, name)
    local counter = redis.call('HGET', store.bucket(meta, 'topics', store.digest_hash(digest)), digest)
    if not counter then return nil end
    counter = tonumber(counter)
    local known = redis.call('HGET', store.prefix(meta) .. 'names:' .. math.floor(counter / 64), counter % 64)
    return known == name and counter or -1
end
