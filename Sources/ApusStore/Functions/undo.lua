-- These functions manage devices of a place that were removed on a provider's word, and that can be brought back.

-- Reads such devices, in the order of their removals.
-- KEYS: 1 meta of the place
-- Returns: how many entries there are, then two elements for each: when the device was removed, in ms; header and record, empty when it cannot
--          be brought back any more
register_function{
    name = 'apus2_pruned_devices',
    flags = {'no-writes'},
    required = 4,
    run = function(
        keys,
        from_ms, -- removed then or later
        before_ms, -- and before that
        first, -- how many entries are left out
        limit -- entries, at most
    )
        local entries = redis.call('ZRANGEBYSCORE', store.prefix(keys[1]) .. 'pruned', string.format('%.0f', from_ms),
            string.format('(%.0f', before_ms), 'WITHSCORES', 'LIMIT', first, limit)
        local answer = { #entries / 2 }
        for i = 1, #entries, 2 do
            answer[i + 1] = tonumber(entries[i + 1])
            answer[i + 2] = redis.call('GET', undo.key(keys[1], entries[i])) or ''
        end
        return answer
    end,
}

-- Forgets the record of a removed device: nobody may bring it back any more. Where there was one, the removal is remembered instead, so that
-- an older registration that comes late does not bring the device back. It runs on a full Redis too, because it frees memory.
-- KEYS: metas of all places where it may be, or may have been
-- Returns: how many records are kept, because they are of later registrations
register_function{
    name = 'apus2_forget_pruned',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        digest, -- of the device id, 8 bytes
        forgets_history, -- its history goes, too, unless the device is there
        as_of, -- the time as of which it is forgotten, in ms (one to come counts as now); 0: now
        remember_ms -- for how long registrations of an earlier time do not bring it back; 0: not at all
    )
        as_of = as_of or 0
        remember_ms = remember_ms or 0
        if #digest ~= 8 then return redis.error_reply('ERR apus2_forget_pruned: malformed digest') end
        local forgotten, kept = undo.forget(keys, digest, as_of)
        if forgets_history and kept == 0 then
            local is_there = false
            for _, meta in ipairs(keys) do is_there = is_there or store.find(meta, digest) ~= nil end
            if not is_there then history.forget(keys[1], digest) end
        end
        if forgotten > 0 and remember_ms > 0 then removals.remember(keys[1], digest, as_of, store.now(), remember_ms) end
        return kept
    end,
}

-- Records beside a user that a device of it is about to be removed and leaves a history, or a record to bring it back, so that it is found when
-- the user is forgotten. It runs on a full Redis too, because outcomes are applied by it.
-- KEYS: 1 `{t}<app>:former_of:<digest>`, t and digest from the user
-- Returns: 1 recorded, 0 it was already
register_function{
    name = 'apus2_note_former_device',
    flags = {'allow-oom'},
    required = 3,
    run = function(
        keys,
        device, -- partition (2 bytes) and digest (8)
        keep_ms, -- for how long something of it is kept, at most
        devices_max -- of one user that are noted; beyond it any of them goes
    )
        if #device ~= 10 or keep_ms < 1 then return redis.error_reply('ERR apus2_note_former_device: malformed arguments') end
        local added = redis.call('SADD', keys[1], device)
        if redis.call('SCARD', keys[1]) > devices_max then redis.call('SPOP', keys[1]) end
        -- Without a time to live it counts as one that lives for ever, so the first is set by itself.
        redis.call('PEXPIRE', keys[1], keep_ms, 'NX')
        redis.call('PEXPIRE', keys[1], keep_ms, 'GT')
        return added
    end,
}
