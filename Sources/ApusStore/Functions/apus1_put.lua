-- Writes a device: creates it, replaces it, or moves it here from another realm.
--
-- KEYS[1]  meta of the place where the device is to be
-- KEYS[2…] metas of the app's other realms in the same partition: looked at when the device is not in KEYS[1], so that
--          it is never in two
-- ARGV[1]  digest of the device id, 8 bytes
-- ARGV[2]  what the writer believes to be stored: header and record, all bytes; empty: nothing
-- ARGV[3]  the new record, without header
-- ARGV[4]  registered-at: "now", "keep", or a time in milliseconds (one to come counts as now)
-- ARGV[5]  topics to enter, 4 bytes each, big endian. In a move: all
-- ARGV[6]  topics to leave. In a move: all of the old place
-- ARGV[7]  what to tell the device's history, if it has one; empty or absent: nothing
-- returns  {1, ordinal, header of 12 bytes}; {0} when something else is stored, and nothing is written;
--          {-1} when the place is full
local function put(keys, args)
    local digest, expected, record, stamp = args[1], args[2], args[3], args[4]
    local entered, left = store.topics(args[5]), store.topics(args[6])
    if #digest ~= 8 or #record == 0 or not entered or not left then
        return redis.error_reply('ERR apus1_put: malformed arguments')
    end
    local ordinal, current, from
    for _, meta in ipairs(keys) do
        ordinal, current = store.find(meta, digest)
        if current then
            from = meta
            break
        end
    end
    if (current or '') ~= expected then return { 0 } end

    local now = store.now()
    local registered
    if stamp == 'now' then
        registered = now
    elseif stamp == 'keep' then
        if not current then return redis.error_reply('ERR apus1_put: nothing to keep') end
        registered = struct.unpack('>I8', current)
    else
        registered = tonumber(stamp)
        if not registered or registered < 0 then return redis.error_reply('ERR apus1_put: malformed time') end
        if registered > now then registered = now end
    end

    local to = keys[1]
    local generation
    if from == to then
        local _, kept = struct.unpack('>I8I4', current)
        generation = kept
    else
        local place
        place, generation = store.allot(to, now)
        if not place then return { -1 } end
        local badge
        if from then
            local _, old = store.record_place(from, ordinal)
            badge = redis.call('HGET', store.badge_key(from, ordinal), old)
            store.evict(from, digest, ordinal, left, now)
            left = {}
        end
        ordinal = place
        if badge then
            local _, new = store.record_place(to, ordinal)
            redis.call('HSET', store.badge_key(to, ordinal), new, badge)
        end
        redis.call('HSET', store.bucket(to, 'id', store.digest_hash(digest)), digest, ordinal)
        store.field_added(to, 'id', store.digest_hash)
        store.posting_add(to, 0, ordinal)
    end
    local header = struct.pack('>I8I4', registered, generation)
    local slab, field = store.record_place(to, ordinal)
    redis.call('HSET', slab, field, header .. record)
    for _, topic in ipairs(left) do store.posting_remove(to, topic, ordinal) end
    for _, topic in ipairs(entered) do store.posting_add(to, topic, ordinal) end
    if (args[7] or '') ~= '' then history.go_on(to, digest, args[7]) end
    return { 1, ordinal, header }
end

redis.register_function('apus1_put', put)
-- The same for what a provider says of a device that is there. Runs at a full Redis too: outcomes drain by it.
redis.register_function { function_name = 'apus1_judge', callback = put, flags = { 'allow-oom' } }
