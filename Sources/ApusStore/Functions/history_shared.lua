-- The history of a device has its events in the list `hist:<digest in hexadecimal>` of its app and partition. Only devices that something
-- happened to have one. The sorted set `hists` has the digests of those that do, which limits their number.
local history = {
    -- The maximum of events of one device; the oldest are dropped.
    events_max = 20,
    -- The default maximum of histories of an app in a partition.
    devices_max = 4096,
    -- One call removes at most this many histories: one call adds one.
    evicted_max = 64,
}

-- Returns the prefix of the keys of an app and partition. The meta may be that of an app and partition, or of a place.
local function history_head(meta)
    return string.match(meta, '^%b{}[^:]*:')
end

-- Returns the history of a device.
function history.key(meta, digest)
    local high, low = struct.unpack('>I4I4', digest)
    return history_head(meta) .. 'hist:' .. string.format('%08x%08x', high, low)
end

-- Appends an event, unless it is there; returns whether it was new.
function history.append(key, event)
    if redis.call('LPOS', key, event) then return false end
    if redis.call('RPUSH', key, event) > history.events_max then redis.call('LTRIM', key, -history.events_max, -1) end
    return true
end

-- Appends an event, unless it is there, and keeps the history for that long from now on; returns whether the event was new.
function history.add(key, event, keep_ms)
    if not history.append(key, event) then return false end
    redis.call('PEXPIRE', key, digits(keep_ms))
    return true
end

-- Returns true when a device of that generation has that ordinal in a place.
function history.is_there(place, ordinal, generation)
    local slab, field = store.record_place(place, ordinal)
    local record = redis.call('HGET', slab, field)
    if not record then return false end
    local _, held = struct.unpack('>I8I4', record)
    return held == generation
end

-- Appends an event to the history of a device that has one.
function history.go_on(meta, digest, event)
    local key = history.key(meta, digest)
    if redis.call('EXISTS', key) == 1 then history.append(key, event) end
end

-- Records that devices have a history since now, and removes those that are too many: first of devices that are well, then of those
-- in trouble, each time those with the oldest last event. Trouble counts as if it came later by as long as histories are kept.
-- entered: digest of a device, whether it is in trouble …
function history.enter(meta, entered, keep, devices_max)
    local index, now = history_head(meta) .. 'hists', store.now()
    local well, trouble = digits(now), digits(now + keep)
    local members = {}
    for _, device in ipairs(entered) do
        members[#members + 1] = device[2] and trouble or well
        members[#members + 1] = device[1]
    end
    redis.call('ZADD', index, 'GT', unpack(members))
    -- Histories are kept for several times; the index lives for twice the longest of them, from the last one of that kind on. Without a
    -- time to live it counts as one that lives for ever, so the first is set by itself.
    local lifetime = digits(keep * 2)
    redis.call('PEXPIRE', index, lifetime, 'NX')
    redis.call('PEXPIRE', index, lifetime, 'GT')
    -- The histories of these devices have expired, whichever time they were kept for.
    redis.call('ZREMRANGEBYSCORE', index, '-inf', string.format('(%.0f', now - redis.call('PTTL', index)))
    local excess = redis.call('ZCARD', index) - devices_max
    if excess <= 0 then return end
    local evicted = redis.call('ZPOPMIN', index, math.min(excess, history.evicted_max))
    for i = 1, #evicted, 2 do redis.call('DEL', history.key(meta, evicted[i])) end
end

-- Forgets the history of a device.
function history.forget(meta, digest)
    redis.call('DEL', history.key(meta, digest))
    redis.call('ZREM', history_head(meta) .. 'hists', digest)
end
