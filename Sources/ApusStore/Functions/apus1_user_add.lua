-- Notes that a user may have a device: before the record says so, and once more after it.
--
-- KEYS[1]  `{t}<app>:meta`, t from the user
-- ARGV[1]  digest of the user, 8 bytes
-- ARGV[2]  the device: partition (2 bytes) and digest (8)
-- ARGV[3]  devices a user may have
-- returns  1 noted, 0 it was, -1 the user has as many as may be
local function user_add(keys, args)
    local meta, digest, device, most = keys[1], args[1], args[2], tonumber(args[3])
    if #digest ~= 8 or #device ~= users.device_bytes or not most then
        return redis.error_reply('ERR apus1_user_add: malformed arguments')
    end
    local bucket, field = users.place(meta, digest)
    local devices = redis.call('HGET', bucket, field)
    for i = 1, #(devices or ''), users.device_bytes do
        if string.sub(devices, i, i + users.device_bytes - 1) == device then return 0 end
    end
    if #(devices or '') / users.device_bytes >= most then return -1 end
    redis.call('HSET', bucket, field, (devices or '') .. device)
    if not devices then store.field_added(meta, 'user', store.digest_hash) end
    return 1
end

redis.register_function('apus1_user_add', user_add)
