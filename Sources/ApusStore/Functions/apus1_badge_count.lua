-- Counts a send for devices of one place: once per device and send, whoever asks again. Runs at a full Redis too: what is
-- being sent must come to its end, and a device takes at most some fifty bytes.
--
-- KEYS[1]  meta of the place
-- ARGV[1]  digest of the send, 5 bytes
-- ARGV[2]  what it adds
-- ARGV[3]  '1' when these devices were counted before, for this send: then only who has no count at all is counted
-- ARGV[4]  ordinal and generation of each device, 4 bytes each, big endian; at most 512 devices
-- returns  the counts, 4 bytes each, big endian, in their order; 0xffffffff where there is no such device
local function badge_count(keys, args)
    local meta, send, added, again, devices = keys[1], args[1], tonumber(args[2]), args[3] == '1', args[4]
    if #send ~= badges.digest_bytes or not added or added < 0 or #devices % 8 ~= 0 or #devices > 4096 then
        return redis.error_reply('ERR apus1_badge_count: malformed arguments')
    end
    local counts = {}
    local position = 1
    while position <= #devices do
        -- The devices of one slab together: one read of the records, one of the counts, one write.
        local records, ordinal, fields, generations = nil, nil, {}, {}
        while position <= #devices and #fields < store.slab do
            local next, generation = struct.unpack('>I4I4', devices, position)
            local slab, field = store.record_place(meta, next)
            if records and slab ~= records then break end
            records, ordinal = slab, next
            fields[#fields + 1], generations[#fields + 1] = field, generation
            position = position + 8
        end
        local held = redis.call('HMGET', records, unpack(fields))
        local place = store.badge_key(meta, ordinal)
        local entries = redis.call('HMGET', place, unpack(fields))
        local changed = {}
        for i, field in ipairs(fields) do
            local count = badges.none
            local _, generation = struct.unpack('>I8I4', held[i] or badges.no_header)
            if held[i] and generation == generations[i] then
                local sends
                count, sends = badges.read(entries[i])
                if not (entries[i] and (again or badges.has(sends, send))) then
                    count = math.min(count + added, badges.count_max)
                    local n = #changed
                    changed[n + 1], changed[n + 2] = field, badges.entry(count, sends, send)
                end
            end
            counts[#counts + 1] = struct.pack('>I4', count)
        end
        if #changed > 0 then redis.call('HSET', place, unpack(changed)) end
    end
    return table.concat(counts)
end

redis.register_function { function_name = 'apus1_badge_count', callback = badge_count, flags = { 'allow-oom' } }
