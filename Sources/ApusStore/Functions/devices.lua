-- Devices of a place.

-- Tells whether a device was removed after the time of a registration, or on a provider's word with that registration or a later one.
local function is_gone(keys, digest, registered)
    for _, meta in ipairs(keys) do
        if removals.is_after(meta, digest, registered) then return true end
        local pruned = redis.call('GET', undo.key(meta, digest))
        if pruned and registered <= struct.unpack('>I8', pruned) then return true end
    end
    return false
end

-- Writes a device: creates it, replaces it, or moves it to another place. The arguments must have been checked. `places.write` must follow,
-- also when it fails.
-- to: meta of the place where the device is to be
-- keys: metas of all places where it may be, so that it is never in two, and cannot be brought back as it was in any
-- opened: the places that the call has opened
-- Returns: its ordinal and the header of 12 bytes; nothing when something else is stored, and nothing is written; false when the place is full
local function put_device(to, keys, opened, now, digest, record, registered, expected, entered, left, event)
    local ordinal, current, from
    for _, meta in ipairs(keys) do
        ordinal, current = places.find(opened, meta, digest)
        if current then
            from = meta
            break
        end
    end
    if (current or '') ~= expected then return nil end
    -- Something is expected whenever the time is to be kept.
    if registered == 'keep' then registered = struct.unpack('>I8', current) end

    local place, is_new = places.open(opened, to), from ~= to
    local home, is_freed = ordinal, false
    if is_new then
        home, is_freed = places.next_ordinal(place, now)
        if not home then return false end
    end
    -- Read before anything is written: a posting that is of another type keeps the device out.
    local postings = {}
    if is_new then postings[1] = places.posting(place, 0, home) end
    for _, topic in ipairs(entered) do postings[#postings + 1] = places.posting(place, topic, home) end
    local slab, field = store.record_place(to, home)
    local generation
    if is_new then
        if from then
            local _, old = store.record_place(from, ordinal)
            local badge = redis.call('HGET', store.badge_key(from, ordinal), old)
            places.close(opened, from)
            store.evict(from, digest, ordinal, left, now)
            left = {}
            if badge then redis.call('HSET', store.badge_key(to, home), field, badge) end
        end
        undo.forget(keys, digest, 0)
        generation = places.take_ordinal(place, is_freed, digest)
    else
        local _, kept = struct.unpack('>I8I4', current)
        generation = kept
    end
    local header = struct.pack('>I8I4', registered, generation)
    redis.call('HSET', slab, field, header .. record)
    if is_new then places.add_id(place, digest, home) end
    for _, posting in ipairs(postings) do places.enter(place, posting, home) end
    if #left > 0 then
        places.close(opened, to)
        for _, topic in ipairs(left) do store.posting_remove(to, topic, home) end
    end
    if event ~= '' then history.go_on(to, digest, event) end
    return home, header
end

-- Returns the time of a registration as its writer states it: "now", a time in milliseconds (a future one counts as now), or "keep", which is
-- the time in the record. Returns nothing when it is malformed.
local function registration_time(registered_at, expected, now)
    if registered_at == 'now' then return now end
    if registered_at == 'keep' then return expected ~= '' and 'keep' or nil end
    local registered = tonumber(registered_at)
    if not registered or registered < 0 then return nil end
    return math.min(registered, now)
end

-- Writes a device: creates it, replaces it, or moves it here from another realm.
-- KEYS: 1 meta of the place where the device is to be
--       2… metas of the app's other realms in the same partition: looked at when the device is not in KEYS[1], so that
--          it is never in two
-- Returns: {1, ordinal, header of 12 bytes}; {0} when something else is stored or kept, and nothing is written;
--          {-1} when the place is full
local put = function(
    keys,
    digest, -- of the device id, 8 bytes
    record, -- the new one, without header
    registered_at, -- "now", "keep", or a time in milliseconds (one to come counts as now)
    expected, -- header and record that the writer believes to be stored, all bytes; empty: nothing
    entered, -- topics, 4 bytes each, big endian. In a move: all
    left, -- topics. In a move: all of the old place
    event, -- for the device's history, if it has one; empty: none
    pruned -- header and record that must be kept of the removed device in KEYS[1], all bytes; empty: none need be
)
    expected = expected or ''
    entered = entered or ''
    left = left or ''
    event = event or ''
    pruned = pruned or ''
    entered, left = store.topics(entered), store.topics(left)
    local now = store.now()
    local registered = registration_time(registered_at, expected, now)
    if #digest ~= 8 or #record == 0 or not entered or not left or not registered then
        return redis.error_reply('ERR apus2_put_device: malformed arguments')
    end
    if pruned ~= '' and redis.call('GET', undo.key(keys[1], digest)) ~= pruned then return { 0 } end
    local opened = {}
    local done, ordinal, header = pcall(
        put_device,
        keys[1], keys, opened, now, digest, record, registered, expected, entered, left, event)
    places.write(opened)
    if not done then error(ordinal, 0) end
    if ordinal == nil then return { 0 } end
    if not ordinal then return { -1 } end
    return { 1, ordinal, header }
end

register_function{name = 'apus2_put_device', required = 3, run = put}
-- The same for a provider's verdict on a device that is there. Runs at a full Redis too: outcomes drain by it.
register_function{name = 'apus2_put_verdict', flags = {'allow-oom'}, required = 3, run = put}

-- Writes a device of a list, unless it was removed after the time of its registration, which is the answer "gone" then.
local function put_listed(keys, opened, now, device, is_dated)
    if is_dated and device[5] == '' and is_gone(keys, device[2], device[4]) then return 'gone' end
    return put_device(
        keys[device[1]],
        keys, opened, now, device[2], device[3], device[4], device[5], device[6], device[7], device[8])
end

-- Writes devices of one app and partition, as `apus2_put_device` writes each.
-- KEYS: metas of all realms of the app in the partition
-- Returns: for each device a letter: "w" it is written, then its ordinal (4 bytes, big endian) and header (12); "o" something else is stored,
--          and nothing is written; "g" it was removed after the time of its registration; "f" its place is full; "e" its write failed, then the error, and the others go on
register_function{
    name = 'apus2_put_devices',
    required = 1,
    run = function(
        keys,
        devices -- at most 64, of different digests, each a list: which of KEYS it is to be in, from 1; and what `apus2_put_device` takes
    )
        local now = store.now()
        if #devices > store.devices_max then return redis.error_reply('ERR apus2_put_devices: too many devices') end
        local dated = {}
        for i, device in ipairs(devices) do
            local expected = device[5]
            dated[i] = device[4] ~= 'now' and device[4] ~= 'keep'
            device[4] = registration_time(device[4], expected, now)
            device[6], device[7] = store.topics(device[6]), store.topics(device[7])
            if not keys[device[1]] or #device[2] ~= 8 or #device[3] == 0 or not device[4] or not device[6] or not device[7] then
                return redis.error_reply('ERR apus2_put_devices: malformed arguments')
            end
        end
        local answer, opened = {}, {}
        for i, device in ipairs(devices) do
            local done, ordinal, header = pcall(put_listed, keys, opened, now, device, dated[i])
            if not done then
                answer[i] = 'e' .. (type(ordinal) == 'table' and ordinal.err or tostring(ordinal))
            elseif ordinal == 'gone' then
                answer[i] = 'g'
            elseif ordinal == nil then
                answer[i] = 'o'
            else
                answer[i] = ordinal and 'w' .. struct.pack('>I4', ordinal) .. header or 'f'
            end
        end
        places.write(opened)
        return answer
    end,
}

-- Removes a device and frees its ordinal. Runs at a full Redis too: it drains.
-- KEYS: 1 meta of its place
-- Returns: 1; 0 when something else is stored, and nothing is written
register_function{
    name = 'apus2_remove_device',
    flags = {'allow-oom'},
    required = 2,
    run = function(
        keys,
        digest, -- of the device id, 8 bytes
        expected, -- header and record that the writer believes to be stored, all bytes
        topics, -- of the device, 4 bytes each, big endian
        forgets_history, -- its history goes, too
        undo_ms, -- for how long it can be brought back; 0: not at all
        undo_devices_max, -- of the place that can be brought back
        as_of, -- the time that the removal is of, in ms (one to come counts as now); 0: now
        remember_ms, -- for how long registrations of an earlier time do not bring it back; 0: not at all
        event, -- for its history; empty: none
        keep_history_ms, -- after that event
        histories_max -- of the app in this partition
    )
        topics = topics or ''
        undo_ms = undo_ms or 0
        undo_devices_max = undo_devices_max or 0
        as_of = as_of or 0
        remember_ms = remember_ms or 0
        event = event or ''
        keep_history_ms = keep_history_ms or 0
        histories_max = histories_max or 0
        topics = store.topics(topics)
        if #digest ~= 8 or #expected == 0 or not topics then
            return redis.error_reply('ERR apus2_remove_device: malformed arguments')
        end
        local ordinal, current = store.find(keys[1], digest)
        if not current or current ~= expected then return 0 end
        local now = store.now()
        store.evict(keys[1], digest, ordinal, topics, now)
        if forgets_history then
            history.forget(keys[1], digest)
        end
        if remember_ms > 0 then removals.remember(keys[1], digest, as_of, now, remember_ms) end
        if undo_ms > 0 then undo.keep(keys[1], digest, current, undo_ms, undo_devices_max, now) end
        if event ~= '' and history.add(history.key(keys[1], digest), event, keep_history_ms) then
            history.enter(keys[1], { { digest, true } }, keep_history_ms, histories_max)
        end
        return 1
    end,
}

-- Records the removal of a device that is not there, so that an older registration that comes late does not make it. Runs at a full Redis
-- too, as removals do.
-- KEYS: metas of all places where it may be
-- Returns: 1; 0 when a device is there, and nothing is written
register_function{
    name = 'apus2_note_removal',
    flags = {'allow-oom'},
    required = 3,
    run = function(
        keys,
        digest, -- of the device id, 8 bytes
        as_of, -- the time that the removal is of, in ms; one to come counts as now
        remember_ms -- for how long registrations of an earlier time do not make it
    )
        if #digest ~= 8 then return redis.error_reply('ERR apus2_note_removal: malformed digest') end
        for _, meta in ipairs(keys) do
            local _, current = store.find(meta, digest)
            if current then return 0 end
        end
        removals.remember(keys[1], digest, as_of, store.now(), remember_ms)
        return 1
    end,
}

-- Reads devices by the digests of their ids, over all realms of an app.
-- KEYS: metas of the places to look in, all of one app and partition
-- Returns: the time in ms (0 when it is omitted), how many devices all those places hold (0 when they are not counted), then four elements
--          for each device found: index of the digest and of the place, both from 0; ordinal; header and record
register_function{
    name = 'apus2_find_devices',
    flags = {'no-writes'},
    required = 1,
    run = function(
        keys,
        digests, -- of device ids, 8 bytes each, at most 256
        omits_time,
        counts_devices,
        with_badges -- a fifth element follows for each: the entry of its badge; empty: it has none
    )
        if #digests > 256 then return redis.error_reply('ERR apus2_find_devices: too many digests') end
        local count, buckets, prefixes = 0, {}, {}
        for _, meta in ipairs(counts_devices and keys or none) do
            count = count + tonumber(redis.call('HGET', meta, 'id_count') or 0)
        end
        local found = { omits_time and 0 or store.now(), count }
        for i, digest in ipairs(digests) do
            if #digest ~= 8 then return redis.error_reply('ERR apus2_find_devices: malformed digest') end
            for k, meta in ipairs(keys) do
                local ordinal, record
                if buckets[k] == nil then buckets[k], prefixes[k] = store.id_buckets(meta), store.prefix(meta) end
                if buckets[k] then ordinal, record = store.find_in(prefixes[k], digest, buckets[k]) end
                if record then
                    local n = #found
                    found[n + 1], found[n + 2], found[n + 3], found[n + 4] = i - 1, k - 1, ordinal, record
                    if with_badges then
                        local _, field = store.record_place(meta, ordinal)
                        found[n + 5] = redis.call('HGET', store.badge_key(meta, ordinal), field) or ''
                    end
                    break
                end
            end
        end
        return found
    end,
}

-- Puts right what hangs by one ordinal of a place, by its record: whether its id leads to it, and whether it is among everyone
-- and in topics. For the janitor; changes nothing where all is right.
-- KEYS: 1 meta of the place
-- Returns: 1; 0 when something else is stored, and nothing is written
register_function{
    name = 'apus2_repair_device',
    required = 1,
    run = function(
        keys,
        ordinal,
        expected, -- header and record that the caller read there, all bytes; empty: nothing
        digest, -- of its device id, 8 bytes; empty: nothing is there
        entered, -- topics that the record has, 4 bytes each, big endian
        left -- topics that it may be found in and has not
    )
        expected = expected or ''
        digest = digest or ''
        entered = entered or ''
        left = left or ''
        local meta = keys[1]
        entered, left = store.topics(entered), store.topics(left)
        if #digest ~= (#expected > 0 and 8 or 0) or not entered or not left then
            return redis.error_reply('ERR apus2_repair_device: malformed arguments')
        end
        local slab, field = store.record_place(meta, ordinal)
        if (redis.call('HGET', slab, field) or '') ~= expected then return 0 end
        for _, topic in ipairs(left) do store.posting_remove(meta, topic, ordinal) end
        if #expected == 0 then
            store.posting_remove(meta, 0, ordinal)
            return 1
        end
        store.posting_add(meta, 0, ordinal)
        for _, topic in ipairs(entered) do store.posting_add(meta, topic, ordinal) end
        if redis.call('HSETNX', store.bucket(meta, 'id', store.digest_hash(digest)), digest, ordinal) == 1 then
            store.field_added(meta, 'id', store.digest_hash)
        end
        return 1
    end,
}

-- Claims the upkeep of an app's part of a partition, unless another caller has claimed it within that time. Runs at a full Redis too:
-- the janitor makes room.
-- KEYS: 1 what remembers it
-- Returns: 1; 0 when somebody has
register_function{
    name = 'apus2_begin_upkeep',
    flags = {'allow-oom'},
    required = 1,
    run = function(keys, seconds)
        local now, pause = store.now(), seconds * 1000
        local begun = tonumber(redis.call('GET', keys[1]) or '0')
        -- A time to come is one of a clock that has gone back: nobody would look before it has caught up.
        if begun <= now and now - begun < pause then
            return 0
        end
        redis.call('SET', keys[1], digits(now), 'PX', digits(pause))
        return 1
    end,
}

-- Reads what a place holds.
-- KEYS: 1 meta of the place
-- Returns: {next ordinal, live devices, generation, freed ordinals at rest, buckets of ids, buckets of small postings}
register_function{
    name = 'apus2_place_meta',
    flags = {'no-writes'},
    run = function(keys)
        local values = redis.call('HMGET', keys[1], 'next', 'id_count', 'generation', 'id', 'few')
        local function number(text, otherwise) return tonumber(text or otherwise) end
        return {
            number(values[1], 0), number(values[2], 0), number(values[3], 0),
            redis.call('LLEN', store.prefix(keys[1]) .. 'freed'),
            number(values[4], 1), number(values[5], 1),
        }
    end,
}

-- Reads the postings of topics in a range of chunks of one place.
-- KEYS: 1 meta of the place
-- Returns: one string for each chunk and topic, chunk by chunk: nothing, packed ordinals (two bytes each, big endian,
--          ascending, within the chunk), or 512 bytes of bitmap (the first ordinal in the highest bit of the first byte).
--          At most 512 strings.
register_function{
    name = 'apus2_read_postings',
    flags = {'no-writes'},
    required = 3,
    run = function(
        keys,
        first, -- chunk
        count, -- chunks
        topics -- numbers; 0 is everyone
    )
        if count * #topics > 512 then
            return redis.error_reply('ERR apus2_read_postings: malformed range')
        end
        if count < 1 or #topics == 0 then return {} end
        local meta = keys[1]
        local names = {}
        for chunk = first, first + count - 1 do
            for _, topic in ipairs(topics) do names[#names + 1] = store.posting_key(meta, topic, chunk) end
        end
        local found = redis.call('MGET', unpack(names))
        local buckets = store.buckets(meta, 'few')
        for i = 1, #names do
            if not found[i] then
                local chunk = first + math.floor((i - 1) / #topics)
                local field, bucket = store.few_place(meta, topics[(i - 1) % #topics + 1], chunk, buckets)
                found[i] = redis.call('HGET', bucket, field) or ''
            end
        end
        return found
    end,
}
