-- Notes that a user may have a device: before the record says so, and once more after it.
--
-- KEYS[1]  `{t}<app>:meta`, t from the user
-- ARGV[1]  digest of the user, 8 bytes
-- ARGV[2]  the device: partition (2 bytes) and digest (8)
-- ARGV[3]  devices a user may have
-- returns  1 noted, 0 it was, -1 the user has as many as may be
local function user_add(keys, args)
    local meta, digest, device, most = keys[1], args[1], args[2], tonumber(args[3])
    if #digest ~= 8 or #device ~= 10 or not most then
        return redis.error_reply('ERR apus1_user_add: malformed arguments')
    end
    local bucket = store.bucket(meta, 'user', store.digest_hash(digest))
    local devices = redis.call('HGET', bucket, digest)
    for i = 1, #(devices or ''), 10 do
        if string.sub(devices, i, i + 9) == device then return 0 end
    end
    if #(devices or '') / 10 >= most then return -1 end
    redis.call('HSET', bucket, digest, (devices or '') .. device)
    if not devices then store.field_added(meta, 'user', store.digest_hash) end
    return 1
end

redis.register_function('apus1_user_add', user_add)
