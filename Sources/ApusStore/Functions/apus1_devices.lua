-- Reads devices by the digests of their ids, over all realms of an app.
--
-- KEYS     metas of the places to look in, all of one app and partition
-- ARGV     digests, 8 bytes each, at most 256
-- returns  four elements for each device found: index of the digest and of the place, both from 0; ordinal; header and record
local function devices(keys, args)
    if #args > 256 then return redis.error_reply('ERR apus1_devices: too many digests') end
    local found = {}
    for i, digest in ipairs(args) do
        if #digest ~= 8 then return redis.error_reply('ERR apus1_devices: malformed digest') end
        for k, meta in ipairs(keys) do
            local ordinal, record = store.find(meta, digest)
            if record then
                local n = #found
                found[n + 1], found[n + 2], found[n + 3], found[n + 4] = i - 1, k - 1, ordinal, record
                break
            end
        end
    end
    return found
end

redis.register_function { function_name = 'apus1_devices', callback = devices, flags = { 'no-writes' } }
