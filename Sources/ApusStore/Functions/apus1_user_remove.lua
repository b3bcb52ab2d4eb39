-- Forgets that a user may have a device, after the record no longer says so. Runs at a full Redis too: it drains.
--
-- KEYS[1]  `{t}<app>:meta`, t from the user
-- ARGV[1]  digest of the user, 8 bytes
-- ARGV[2]  the device: partition (2 bytes) and digest (8)
-- returns  1 when it was noted, else 0
local function user_remove(keys, args)
    local meta, digest, device = keys[1], args[1], args[2]
    if #digest ~= 8 or #device ~= users.device_bytes then return redis.error_reply('ERR apus1_user_remove: malformed arguments') end
    local bucket, field = users.place(meta, digest)
    local devices = redis.call('HGET', bucket, field)
    for i = 1, #(devices or ''), users.device_bytes do
        if string.sub(devices, i, i + users.device_bytes - 1) == device then
            if #devices == users.device_bytes then
                redis.call('HDEL', bucket, field)
                store.field_removed(meta, 'user')
            else
                redis.call('HSET', bucket, field, string.sub(devices, 1, i - 1) .. string.sub(devices, i + users.device_bytes))
            end
            return 1
        end
    end
    return 0
end

redis.register_function { function_name = 'apus1_user_remove', callback = user_remove, flags = { 'allow-oom' } }
