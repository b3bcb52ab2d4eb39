-- Badges that sends count up are laid out as the records are: the hash `badge:<k>` of a place, ordinal mod 64 → count (4 bytes, big endian),
-- the time of the last command with a time that set it (6, in ms; 0: none has) and digests of the last sends counted (5 each, the newest
-- last). A device has an entry once a send was counted for it, or its badge was set to more than 0, or by a command with a time, whose time
-- an entry of 0 keeps, too. It is removed with the record (`store.evict`), so it always belongs to the device that is there.
local badges = {
    -- A provider takes a badge as an int32.
    count_max = 2147483647,
    digest_bytes = 5,
    -- A send is repeated after a crash, seconds later; retries, and journals of units that have waited, say that it was counted.
    sends_max = 8,
    none = 4294967295,
    no_header = '\0\0\0\0\0\0\0\0\0\0\0\0',
}

-- Returns the count of an entry, its time and its digests.
function badges.read(entry)
    if not entry then return 0, 0, '' end
    local count, time, first = struct.unpack('>I4I6', entry)
    return count, time, string.sub(entry, first)
end

-- Returns an entry with that count and time; `send` is one more that was counted.
function badges.entry(count, time, sends, send)
    if send then sends = string.sub(sends, -(badges.sends_max - 1) * badges.digest_bytes) .. send end
    return struct.pack('>I4I6', count, time) .. sends
end

function badges.has(sends, send)
    for i = 1, #sends, badges.digest_bytes do
        if string.sub(sends, i, i + badges.digest_bytes - 1) == send then return true end
    end
    return false
end

-- Counts a send for devices of one place: once per device and send, however often it is repeated. It runs on a full Redis too, because a
-- running send must come to its end, and a device takes at most some fifty bytes.
-- KEYS: 1 meta of the place
-- Returns: the counts, 4 bytes each, big endian, in their order; 0xffffffff where there is no such device
register_function{
    name = 'apus2_count_badges',
    flags = {'allow-oom'},
    required = 3,
    run = function(
        keys,
        send, -- digest of the send, 5 bytes
        increment, -- what the send adds
        devices, -- ordinal and generation of each, 4 bytes each, big endian; at most 512 devices
        is_repeated -- these devices were counted before, for this send: then only those that have no count at all are counted
    )
        local meta = keys[1]
        if #send ~= badges.digest_bytes or increment < 0 or #devices % 8 ~= 0 or #devices > 4096 then
            return redis.error_reply('ERR apus2_count_badges: malformed arguments')
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
                    local time, sends
                    count, time, sends = badges.read(entries[i])
                    if not (entries[i] and (is_repeated or badges.has(sends, send))) then
                        count = math.min(count + increment, badges.count_max)
                        local n = #changed
                        changed[n + 1], changed[n + 2] = field, badges.entry(count, time, sends, send)
                    end
                end
                counts[#counts + 1] = struct.pack('>I4', count)
            end
            if #changed > 0 then redis.call('HSET', place, unpack(changed)) end
        end
        return table.concat(counts)
    end,
}

-- Sets a device's badge, as the app reports it. The sends that were counted stay counted.
-- KEYS: 1 meta of its place
-- Returns: 1; 2 when a command of that time or a later one has set it, and nothing is written; 0 when there is no such device
register_function{
    name = 'apus2_set_badge',
    required = 3,
    run = function(
        keys,
        ordinal, -- of the device
        generation,
        count,
        as_of -- the time that the command is of, in ms (one to come counts as now); 0: it has none, and sets the badge in any case
    )
        as_of = as_of or 0
        local meta = keys[1]
        if count < 0 or count > badges.count_max or as_of < 0 then
            return redis.error_reply('ERR apus2_set_badge: malformed arguments')
        end
        local slab, field = store.record_place(meta, ordinal)
        local record = redis.call('HGET', slab, field)
        local _, held = struct.unpack('>I8I4', record or badges.no_header)
        if not record or held ~= generation then return 0 end
        local place = store.badge_key(meta, ordinal)
        local _, time, sends = badges.read(redis.call('HGET', place, field))
        if as_of > 0 then
            as_of = math.min(as_of, store.now())
            -- One of the same time is the same command again: it takes back no send that was counted since.
            if as_of <= time then return 2 end
            time = as_of
        end
        if count == 0 and time == 0 and sends == '' then
            redis.call('HDEL', place, field)
        else
            redis.call('HSET', place, field, badges.entry(count, time, sends))
        end
        return 1
    end,
}
