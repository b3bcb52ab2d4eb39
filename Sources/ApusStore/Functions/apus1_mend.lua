-- Puts right what hangs by one ordinal of a place, by its record: whether its id leads to it, and whether it is among everyone
-- and in topics. For the janitor; changes nothing where all is right.
--
-- KEYS[1]  meta of the place
-- ARGV[1]  the ordinal
-- ARGV[2]  what the caller read there: header and record, all bytes; empty: nothing
-- ARGV[3]  digest of its device id, 8 bytes; empty: nothing is there
-- ARGV[4]  topics that the record has, 4 bytes each, big endian
-- ARGV[5]  topics that it may be found in and has not
-- returns  1; 0 when something else is stored, and nothing is written
local function mend(keys, args)
    local meta, ordinal, expected, digest = keys[1], tonumber(args[1]), args[2], args[3]
    local entered, left = store.topics(args[4]), store.topics(args[5])
    if not ordinal or #digest ~= (#expected > 0 and 8 or 0) or not entered or not left then
        return redis.error_reply('ERR apus1_mend: malformed arguments')
    end
    local slab, field = store.record_place(meta, ordinal)
    if (redis.call('HGET', slab, field) or '') ~= expected then return 0 end
    for _, topic in ipairs(left) do store.posting_remove(meta, topic, ordinal) end
    if #expected == 0 then
        store.posting_remove(meta, 0, ordinal)
        return 1
    end
    store.posting_add(meta, 0, ordinal)
    for _, topic in ipairs(entered) do store.posting_add(meta, topic, ordinal) end
    if redis.call('HSETNX', store.bucket(meta, 'id', store.digest_hash(digest)), digest, ordinal) == 1 then
        store.field_added(meta, 'id', store.digest_hash)
    end
    return 1
end

redis.register_function('apus1_mend', mend)
