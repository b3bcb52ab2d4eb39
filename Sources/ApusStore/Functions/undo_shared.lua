-- Devices that were removed on a provider's word are kept for a while so that they can be brought back: the string `pruned:<digest in
-- hexadecimal>` of their place has header and record as they were, the sorted set `pruned` the digests by the time of the removal.
local undo = {
    -- One call removes at most this many entries of too many: one call adds one.
    evicted_max = 64,
}

-- Returns the entry of a device.
function undo.key(meta, digest)
    local high, low = struct.unpack('>I4I4', digest)
    return store.prefix(meta) .. 'pruned:' .. string.format('%08x%08x', high, low)
end

-- Keeps the record of a removed device. The oldest are dropped when there are too many.
function undo.keep(meta, digest, value, keep_ms, devices_max, now)
    local index = store.prefix(meta) .. 'pruned'
    redis.call('SET', undo.key(meta, digest), value, 'PX', keep_ms)
    redis.call('ZADD', index, string.format('%.0f', now), digest)
    redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('(%.0f', now - keep_ms))
    redis.call('PEXPIRE', index, keep_ms)
    local excess = redis.call('ZCARD', index) - devices_max
    if excess <= 0 then return end
    local evicted = redis.call('ZPOPMIN', index, math.min(excess, undo.evicted_max))
    for i = 1, #evicted, 2 do redis.call('DEL', undo.key(meta, evicted[i])) end
end

-- Forgets the record of a removed device. Returns 1 if it was kept.
function undo.forget(meta, digest)
    if redis.call('ZREM', store.prefix(meta) .. 'pruned', digest) == 0 then return 0 end
    redis.call('DEL', undo.key(meta, digest))
    return 1
end
