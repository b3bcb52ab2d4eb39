-- Devices that were removed on a provider's word are kept for a while so that they can be brought back: the string `pruned:<digest in
-- hexadecimal>` of their place has header and record as they were, the sorted set `pruned` the digests by the time of the removal. The
-- string decides: the set may have devices whose string is gone.
local undo = {
    -- A record is kept for at most this long, and its entry in the set for as long: seven days.
    keep_ms_max = 604800000,
    -- One call removes at most this many entries of too many: one call adds one.
    evicted_max = 64,
}

-- Returns the key of a device's record.
function undo.key(meta, digest)
    local high, low = struct.unpack('>I4I4', digest)
    return store.prefix(meta) .. 'pruned:' .. string.format('%08x%08x', high, low)
end

-- Keeps the record of a removed device. The oldest are dropped when there are too many.
function undo.keep(meta, digest, value, keep_ms, devices_max, now)
    local index = store.prefix(meta) .. 'pruned'
    redis.call('SET', undo.key(meta, digest), value, 'PX', keep_ms)
    redis.call('ZADD', index, string.format('%.0f', now), digest)
    redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('(%.0f', now - undo.keep_ms_max))
    redis.call('PEXPIRE', index, undo.keep_ms_max)
    local excess = redis.call('ZCARD', index) - devices_max
    if excess <= 0 then return end
    local evicted = redis.call('ZPOPMIN', index, math.min(excess, undo.evicted_max))
    for i = 1, #evicted, 2 do redis.call('DEL', undo.key(meta, evicted[i])) end
end

-- Forgets the records of a removed device in these places, but none of a registration after `as_of` (0: any). Returns how many were
-- forgotten, and how many are kept.
function undo.forget(metas, digest, as_of)
    local forgotten, kept = 0, 0
    for _, meta in ipairs(metas) do
        local record = undo.key(meta, digest)
        local value = as_of > 0 and redis.call('GET', record)
        if value and struct.unpack('>I8', value) > as_of then
            kept = kept + 1
        elseif redis.call('DEL', record) > 0 then
            redis.call('ZREM', store.prefix(meta) .. 'pruned', digest)
            forgotten = forgotten + 1
        end
    end
    return forgotten, kept
end
