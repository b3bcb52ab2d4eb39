-- The bucketed hash `user` of `{t}<app>:meta` tells which devices a user may have: digest of the user → devices, ten bytes each: partition
-- (2) and digest of the device id (8). These are hints: the records decide. The field is the digest's first four bytes; users that share
-- them share an entry.
local users = { field_bytes = 4, device_bytes = 10 }

-- The bucket of a user's digest, and the field there. n is the number of buckets, when the caller has it.
function users.place(meta, digest, n)
    return store.bucket(meta, 'user', store.digest_hash(digest), n), string.sub(digest, 1, users.field_bytes)
end

-- Notes that a user may have a device.
-- registered: the time of the registration, in ms; 0: it has none
-- Returns: 1 noted, 0 it was, -1 the user has as many as may be, -2 the user was forgotten after that time; whether the field is new
function users.add(meta, digest, device, devices_max, n, registered)
    if registered > 0 and removals.is_after(meta, digest, registered) then return -2, false end
    local bucket, field = users.place(meta, digest, n)
    local devices = redis.call('HGET', bucket, field)
    for i = 1, #(devices or ''), users.device_bytes do
        if string.sub(devices, i, i + users.device_bytes - 1) == device then return 0, false end
    end
    if #(devices or '') / users.device_bytes >= devices_max then return -1, false end
    redis.call('HSET', bucket, field, (devices or '') .. device)
    return 1, not devices
end

-- Records that a user may have a device: before the record says so, and once more after it.
-- KEYS: 1 `{t}<app>:meta`, t from the user
-- Returns: 1 recorded, 0 it was already, -1 the user has the maximum of devices, -2 the user was forgotten after the time
register_function{
    name = 'apus2_add_user',
    required = 3,
    run = function(
        keys,
        digest, -- of the user, 8 bytes
        device, -- partition (2 bytes) and digest (8)
        devices_max, -- that a user may have
        registered -- the time of the registration or log-in that says so, in ms; 0: it has none
    )
        registered = registered or 0
        local meta = keys[1]
        if #digest ~= 8 or #device ~= users.device_bytes then
            return redis.error_reply('ERR apus2_add_user: malformed arguments')
        end
        local n = store.buckets(meta, 'user')
        local answer, is_new = users.add(meta, digest, device, devices_max, n, registered)
        if is_new then store.fields_added(meta, 'user', store.digest_hash, 1, n) end
        return answer
    end,
}

-- Notes that users may have devices, as `apus2_add_user` notes each.
-- KEYS: 1 `{t}<app>:meta`, t from the users
-- Returns: for each what `apus2_add_user` returns
register_function{
    name = 'apus2_add_users',
    required = 2,
    run = function(
        keys,
        additions, -- at most 64: digest of the user (8 bytes), then partition (2) and digest (8) of the device, each
        devices_max, -- that a user may have
        times -- of the registrations that say so, in ms; 0: it has none. Empty: none of them has
    )
        times = times or none
        local meta = keys[1]
        local width = 8 + users.device_bytes
        if #additions % width ~= 0 or #additions / width > store.devices_max then
            return redis.error_reply('ERR apus2_add_users: malformed arguments')
        end
        local n, answer, added = store.buckets(meta, 'user'), {}, 0
        for i = 1, #additions, width do
            local digest, device = string.sub(additions, i, i + 7), string.sub(additions, i + 8, i + width - 1)
            local count, is_new = #answer + 1, false
            answer[count], is_new = users.add(meta, digest, device, devices_max, n, times[count] or 0)
            if is_new then added = added + 1 end
        end
        if added > 0 then store.fields_added(meta, 'user', store.digest_hash, added, n) end
        return answer
    end,
}

-- Records that a user was forgotten, so that an older registration that comes late does not give the user a device. It runs on a full Redis
-- too, as removals do.
-- KEYS: 1 `{t}<app>:meta`, t from the user
-- Returns: 1
register_function{
    name = 'apus2_note_user_removal',
    flags = {'allow-oom'},
    required = 3,
    run = function(
        keys,
        digest, -- of the user, 8 bytes
        as_of, -- the time that the removal is of, in ms; one to come counts as now
        remember_ms -- for how long registrations of an earlier time are refused
    )
        if #digest ~= 8 then return redis.error_reply('ERR apus2_note_user_removal: malformed digest') end
        removals.remember(keys[1], digest, as_of, store.now(), remember_ms)
        return 1
    end,
}

-- Forgets that a user may have a device, after the record does not say so any more. It runs on a full Redis too, because it frees memory.
-- KEYS: 1 `{t}<app>:meta`, t from the user
-- Returns: 1 when it was recorded, else 0
register_function{
    name = 'apus2_remove_user',
    flags = {'allow-oom'},
    required = 2,
    run = function(
        keys,
        digest, -- of the user, 8 bytes
        device -- partition (2 bytes) and digest (8)
    )
        local meta = keys[1]
        if #digest ~= 8 or #device ~= users.device_bytes then return redis.error_reply('ERR apus2_remove_user: malformed arguments') end
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
    end,
}

-- Returns which devices users may have; the records decide.
-- KEYS: 1 `{t}<app>:meta`, t from the users
-- Returns: one string for each: its devices, 10 bytes each (partition 2, digest 8)
register_function{
    name = 'apus2_user_devices',
    flags = {'no-writes'},
    required = 1,
    run = function(
        keys,
        digests -- of users, 8 bytes each, at most 256
    )
        if #digests > 256 then return redis.error_reply('ERR apus2_user_devices: too many digests') end
        local answer = {}
        for i, digest in ipairs(digests) do
            if #digest ~= 8 then return redis.error_reply('ERR apus2_user_devices: malformed digest') end
            answer[i] = redis.call('HGET', users.place(keys[1], digest)) or ''
        end
        return answer
    end,
}
