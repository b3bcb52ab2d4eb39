-- The places in which a call writes devices. It reads each meta and each posting once, works on them in Lua, and writes what has changed
-- in the end. It has read before whatever it writes then, so no write can fail for being of another type; and `places.write` must be called
-- whatever fails in between, since records with their ordinals are written at once.
local places = {}

-- Opens a place by its meta, once for each call.
-- opened: the places that the call has opened: a list, and each by its meta; false for one where no device ever was
local function open(opened, meta, next)
    local place = {
        meta = meta, prefix = store.prefix(meta),
        next = tonumber(next or 0), id_buckets = next and store.buckets(meta, 'id') or 1,
        ids_added = 0, few_added = 0,
        -- The postings that were read: a list, and each by its key.
        postings = {},
    }
    opened[meta], opened[#opened + 1] = place, place
    return place
end

-- Returns a place, which is opened if it was not.
function places.open(opened, meta)
    if opened[meta] == nil then return open(opened, meta, redis.call('HGET', meta, 'next')) end
    return opened[meta] or open(opened, meta, false)
end

-- Writes what has changed in a place.
local function write_place(place)
    local meta = place.meta
    if place.is_extended then redis.call('HSET', meta, 'next', digits(place.next)) end
    if place.is_reused then redis.call('HSET', meta, 'generation', digits(place.generation)) end
    for _, posting in ipairs(place.postings) do
        if posting.is_changed and posting.field then
            redis.call('HSET', posting.bucket, posting.field, posting.packed)
        elseif posting.is_changed then
            redis.call('SET', posting.key, posting.packed)
        end
    end
    if place.ids_added > 0 then store.fields_added(meta, 'id', store.digest_hash, place.ids_added, place.id_buckets) end
    if place.few_added ~= 0 then store.fields_added(meta, 'few', store.few_hash, place.few_added, place.few_buckets) end
end

-- Writes what has changed in the places of a call.
function places.write(opened)
    for _, place in ipairs(opened) do
        if opened[place.meta] == place then write_place(place) end
    end
end

-- Writes what has changed in a place of a call, and forgets what was read of it: what follows changes the place by other means.
function places.close(opened, meta)
    write_place(opened[meta])
    opened[meta] = nil
end

-- The ordinal and the record of a device in a place; nothing when it is not there.
function places.find(opened, meta, digest)
    local place = opened[meta]
    if place == nil then
        local next = redis.call('HGET', meta, 'next')
        if next then place = open(opened, meta, next) else opened[meta] = false end
    end
    if place then return store.find_in(place.prefix, digest, place.id_buckets) end
end

-- Returns the ordinal that the next new device of a place gets, and whether it is a freed one; nothing when the place is full.
function places.next_ordinal(place, now)
    -- Ordinals that are freed during a call rest.
    if not place.has_none_freed then
        local head = redis.call('LINDEX', place.prefix .. 'freed', '0')
        if head then
            local ordinal, at = struct.unpack('>I4I8', head)
            if now - at >= store.rest_ms then return ordinal, true end
        end
        place.has_none_freed = true
    end
    if place.next >= store.ordinals_max then return nil end
    return place.next, false
end

-- Gives that ordinal to a device of that digest.
-- Returns: the device's generation: a part of its id's digest, plus how often the place has reused ordinals
--
-- Another holder of the ordinal has another generation, also when Redis has lost its last writes and gives out the same ordinal after the
-- same number of reuses: then the ids differ, and with them the digests.
function places.take_ordinal(place, is_freed, digest)
    if not place.generation then place.generation = tonumber(redis.call('HGET', place.meta, 'generation') or 0) end
    if is_freed then
        redis.call('LPOP', place.prefix .. 'freed')
        place.generation, place.is_reused = place.generation + 1, true
    else
        place.next, place.is_extended = place.next + 1, true
    end
    local part = struct.unpack('>I4', digest, 5)
    return (part + place.generation) % store.generations
end

-- Enters a device in the ids of a place.
function places.add_id(place, digest, ordinal)
    local bucket = store.bucket_of(place.prefix .. 'id:', store.digest_hash(digest), place.id_buckets)
    redis.call('HSET', bucket, digest, digits(ordinal))
    place.ids_added = place.ids_added + 1
end

-- Returns the posting of a topic in the chunk of an ordinal, which is read once in each call: its key, and what is packed in it. A small one
-- has the field and the bucket where it is, and `is_new` when it is not there; a bitmap has nothing packed.
function places.posting(place, topic, ordinal)
    local chunk = math.floor(ordinal / store.chunk)
    local key = place.prefix .. 'topic:' .. digits(topic) .. ':' .. digits(chunk)
    local posting = place.postings[key]
    if posting then return posting end
    local packed = redis.call('GET', key)
    posting = { key = key, packed = packed }
    if not packed then
        place.few_buckets = place.few_buckets or store.buckets(place.meta, 'few')
        local field = store.few_field(topic, chunk)
        local bucket = store.bucket_of(place.prefix .. 'few:', store.few_hash(field), place.few_buckets)
        packed = redis.call('HGET', bucket, field)
        posting.field, posting.bucket, posting.packed, posting.is_new = field, bucket, packed or '', not packed
    elseif #packed == store.bitmap_bytes then
        posting.packed = nil
    end
    place.postings[key], place.postings[#place.postings + 1] = posting, posting
    return posting
end

-- Enters an ordinal in a posting of its chunk. Does nothing when it is there.
function places.enter(place, posting, ordinal)
    local member, old = ordinal % store.chunk, posting.packed
    if not old then
        redis.call('SETBIT', posting.key, digits(member), '1')
        return
    end
    local packed = store.packed_insert(old, member)
    if #packed == #old then return end
    local count = #packed / 2
    if posting.field and count >= store.few_max then
        if not posting.is_new then redis.call('HDEL', posting.bucket, posting.field) end
        posting.field, place.few_added = nil, place.few_added - 1
    elseif posting.field and #old == 0 then
        place.few_added = place.few_added + 1
    elseif count >= store.bitmap_from then
        redis.call('SET', posting.key, store.bitmap_from_packed(packed))
        posting.packed, posting.is_changed = nil, false
        return
    end
    posting.packed, posting.is_changed = packed, true
end
