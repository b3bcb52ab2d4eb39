-- Appends events to a device's history, each once: an event that is there already was reported again.
-- KEYS: 1 {t}<app>:meta
--       2 meta of the device's place
-- Returns: how many were new; 0 when the device is not there
register_function{
    name = 'apus2_add_history',
    required = 4,
    run = function(
        keys,
        digest, -- of the device id, 8 bytes
        keep_ms, -- after its last event
        histories_max, -- of the app in this partition
        events, -- any bytes, in their order
        is_trouble, -- this history goes after those of devices that are well
        ordinal, -- of the device, when it must still be there
        generation
    )
        if #digest ~= 8 or keep_ms < 1 or histories_max < 1 then
            return redis.error_reply('ERR apus2_add_history: malformed arguments')
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
        for _, event in ipairs(events) do
            if history.append(key, event) then added = added + 1 end
        end
        if added > 0 then
            redis.call('PEXPIRE', key, keep_ms)
            history.enter(keys[1], digest, keep_ms, histories_max, is_trouble)
        end
        return added
    end,
}
