-- Removes a device and frees its ordinal. Runs at a full Redis too: it drains.
--
-- KEYS[1]  meta of its place
-- ARGV[1]  digest of the device id, 8 bytes
-- ARGV[2]  what the writer believes to be stored: header and record, all bytes
-- ARGV[3]  its topics, 4 bytes each, big endian
-- ARGV[4]  "forget": its history goes, too; absent: it stays
-- returns  1; 0 when something else is stored, and nothing is written
local function remove(keys, args)
    local digest, expected, topics = args[1], args[2], store.topics(args[3])
    if #digest ~= 8 or #expected == 0 or not topics then
        return redis.error_reply('ERR apus1_remove: malformed arguments')
    end
    local ordinal, current = store.find(keys[1], digest)
    if not current or current ~= expected then return 0 end
    store.evict(keys[1], digest, ordinal, topics, store.now())
    if args[4] == 'forget' then history.forget(keys[1], digest) end
    return 1
end

redis.register_function { function_name = 'apus1_remove', callback = remove, flags = { 'allow-oom' } }
