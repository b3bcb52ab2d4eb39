-- Appends events to the histories of devices of one app, each once: an event that is there already is the same one, reported again. A
-- device that is gone gets none: its history may have been forgotten.
-- KEYS: 1 {t}<app>:meta, then the metas of the devices' places, each once
-- Returns: how many were new; events of devices that are not there count as none
register_function{
    name = 'apus2_add_history',
    required = 8,
    run = function(
        keys,
        keep_ms, -- after a history's last event
        histories_max, -- of the app in this partition
        events, -- any bytes, in their order
        -- Of the device of each event:
        digests, -- of its id, 8 bytes
        places, -- which of KEYS from the second on, from 1
        ordinals,
        generations,
        troubles -- 1: its history goes after those of devices that are well
    )
        if keep_ms < 1 or histories_max < 1 then
            return redis.error_reply('ERR apus2_add_history: malformed arguments')
        end
        local added, entered = 0, {}
        for index, event in ipairs(events) do
            local digest, ordinal = digests[index], ordinals[index]
            if #digest ~= 8 then
                return redis.error_reply('ERR apus2_add_history: malformed arguments')
            end
            if history.is_there(keys[places[index] + 1], ordinal, generations[index]) then
                if history.add(history.key(keys[1], digest), event, keep_ms) then
                    added = added + 1
                    entered[#entered + 1] = {digest, troubles[index] == 1}
                end
            end
        end
        if added > 0 then
            history.enter(keys[1], entered, keep_ms, histories_max)
        end
        return added
    end,
}
