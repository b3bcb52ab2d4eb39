-- Appends events to a device's history, each once: an event that stands there already is the same one, told again.
--
-- KEYS[1]  {t}<app>:meta
-- KEYS[2]  meta of the device's place; absent: only events follow the time to keep
-- ARGV[1]  digest of the device id, 8 bytes
-- ARGV[2]  milliseconds to keep the history after its last event
-- with KEYS[2]:
-- ARGV[3]  histories of the app in this partition, at most
-- ARGV[4]  'trouble': this history goes after those of devices that are well; empty: it does not
-- ARGV[5]  ordinal, and
-- ARGV[6]  generation of the device, when it must still be there; both empty: it need not
-- ARGV[…]  events, any bytes, in their order
-- returns  how many were new; 0 when the device is not there
local function history_add(keys, args)
    local digest, keep = args[1], tonumber(args[2])
    local first, devices_max, is_trouble, ordinal, generation = 3, history.devices_max, true, nil, nil
    if keys[2] then
        first, devices_max, is_trouble = 7, tonumber(args[3]), args[4] == 'trouble'
        ordinal, generation = tonumber(args[5]), tonumber(args[6])
    end
    if #digest ~= 8 or not keep or keep < 1 or not devices_max or devices_max < 1 then
        return redis.error_reply('ERR apus1_history_add: malformed arguments')
    end
    if ordinal then
        local slab, field = store.record_place(keys[2], ordinal)
        local record = redis.call('HGET', slab, field)
        if not record then return 0 end
        local _, held = struct.unpack('>I8I4', record)
        if held ~= generation then return 0 end
    end
    local key = history.key(keys[1], digest)
    local added = 0
    for i = first, #args do
        if history.append(key, args[i]) then added = added + 1 end
    end
    if added > 0 then
        redis.call('PEXPIRE', key, args[2])
        history.enter(keys[1], digest, keep, devices_max, is_trouble)
    end
    return added
end

redis.register_function('apus1_history_add', history_add)
