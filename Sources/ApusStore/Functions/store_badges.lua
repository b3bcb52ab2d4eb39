-- What badge increments have counted to, laid out as the records are: the hash `badge:<k>` of a place, ordinal mod 64 → count
-- (4 bytes, big endian) and digests of the last sends counted (5 each, the newest last). Only devices that were counted have an
-- entry; it goes with the record (`store.evict`), so it is always of the device that is there.
local badges = {
    -- FCM's notification_count is an int32.
    count_max = 2147483647,
    digest_bytes = 5,
    -- A send is asked for again after a crash, seconds later; its retries say that it was counted.
    sends_max = 8,
    none = 4294967295,
    no_header = '\0\0\0\0\0\0\0\0\0\0\0\0',
}

-- The count of an entry and its digests.
function badges.read(entry)
    if not entry then return 0, '' end
    local count = struct.unpack('>I4', entry)
    return count, string.sub(entry, 5)
end

-- An entry with that count; `send` is one more that was counted.
function badges.entry(count, sends, send)
    if send then sends = string.sub(sends, -(badges.sends_max - 1) * badges.digest_bytes) .. send end
    return struct.pack('>I4', count) .. sends
end

function badges.has(sends, send)
    for i = 1, #sends, badges.digest_bytes do
        if string.sub(sends, i, i + badges.digest_bytes - 1) == send then return true end
    end
    return false
end
