-- What became of a device, event by event: the list `hist:<digest in hexadecimal>` of its app and partition. Only devices that
-- something happened to have one.
local history = {
    -- Events of one device; the oldest go.
    events_max = 20,
}

-- The history of a device. The meta may be that of an app and partition, or of a place.
function history.key(meta, digest)
    local head = string.match(meta, '^%b{}[^:]*:')
    local high, low = struct.unpack('>I4I4', digest)
    return head .. 'hist:' .. string.format('%08x%08x', high, low)
end

-- Appends an event, unless it is there; whether it was new.
function history.append(key, event)
    if redis.call('LPOS', key, event) then return false end
    redis.call('RPUSH', key, event)
    redis.call('LTRIM', key, -history.events_max, -1)
    return true
end

-- Appends an event to the history of a device that has one.
function history.go_on(meta, digest, event)
    local key = history.key(meta, digest)
    if redis.call('EXISTS', key) == 1 then history.append(key, event) end
end
