-- Removals are known for a while, so that an older registration that comes late does not bring back what was removed: the string
-- `gone:<digest in hexadecimal>` has the time that a removal was of, in ms. That of a device belongs to its place, that of a user to
-- `{t}<app>:meta`, t from the user.
local removals = {}

-- Returns the key of the removal of a device or user.
function removals.key(meta, digest)
    local high, low = struct.unpack('>I4I4', digest)
    return store.prefix(meta) .. 'gone:' .. string.format('%08x%08x', high, low)
end

-- Records until when registrations are older than a removal. A later removal stays.
-- as_of: the time that the removal is of, in ms (one to come counts as now); 0: now
function removals.remember(meta, digest, as_of, now, remember_ms)
    local time = as_of > 0 and math.min(as_of, now) or now
    local key = removals.key(meta, digest)
    local known = redis.call('GET', key)
    if known and tonumber(known) > time then time = tonumber(known) end
    redis.call('SET', key, string.format('%.0f', time), 'PX', remember_ms)
end

-- Tells whether a device or user was removed after the time of a registration.
function removals.is_after(meta, digest, registered)
    local gone = redis.call('GET', removals.key(meta, digest))
    if gone and registered < tonumber(gone) then return true end
    return false
end
