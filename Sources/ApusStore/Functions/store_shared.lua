-- The store's functions share these: places, bucketed hashes, ordinals, postings. They come before the functions in the library.
--
-- A place is one app, realm and partition; it is named by its meta key `{t}<app>:<realm>:meta`, and its other keys
-- start with what stands before "meta". What belongs to an app and partition without a realm (tokens, users, topics)
-- hangs by `{t}<app>:meta` in the same way.
--
-- Every writer checks its arguments and compares before its first write, since an error rolls nothing back.
local store = {
    -- Entries per bucket, on average, beyond which one bucket is split. Buckets not yet split hold up to twice that.
    bucket_load = 100,
    -- Ordinals of one slab (a hash of records), and of one chunk (what a posting covers).
    slab = 64,
    chunk = 4096,
    -- Ordinals are below this: 65,536 chunks.
    ordinals_max = 268435456,
    -- A freed ordinal rests an hour, so that no live work still points to it.
    rest_ms = 3600000,
    -- Generations are below this: they take four bytes in a unit.
    generations = 268435456,
    -- A posting moves into a key of its own at this many ordinals, and back below the second number.
    few_max = 32,
    few_again = 24,
    -- It becomes a bitmap at this many (where both take 512 bytes), and is packed again below the second number.
    bitmap_from = 256,
    packed_again = 192,
    bitmap_bytes = 512,
    -- Topics of one device, the everyone topic not counted.
    topics_max = 100,
    -- Devices that one call writes, and tokens, users or topics that one call enters or looks up for them.
    devices_max = 64,
}

-- Returns the time in milliseconds. It is read once per call: before Redis 7.2 it moves on while a function runs.
function store.now()
    local time = redis.call('TIME')
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Returns the prefix of a place's keys: its meta key without "meta".
function store.prefix(meta)
    return string.sub(meta, 1, -5)
end

-- Returns the number that determines a digest's bucket: its first four bytes.
function store.digest_hash(digest)
    local hash = struct.unpack('>I4', digest)
    return hash
end

-- Returns the bucket of a hash among n of them. In linear hashing (Litwin 1980) buckets are split one at a time, in order, so that growing
-- never moves more than one bucket, and n doubles in n steps.
local function bucket_index(hash, n)
    if n == 1 then return 0 end
    local level = 1
    while level * 2 <= n do level = level * 2 end
    local index = hash % (level * 2)
    if index >= n then return index - level end
    return index
end

-- Returns how many buckets the bucketed hash `name` of a place has.
function store.buckets(meta, name)
    return tonumber(redis.call('HGET', meta, name) or 1)
end

-- Returns the key of the bucket where `hash` lives among n of a bucketed hash, whose keys begin with `head`.
function store.bucket_of(head, hash, n)
    return head .. digits(bucket_index(hash, n))
end

-- Returns the key of the bucket where `hash` lives in the bucketed hash `name` of a place.
function store.bucket(meta, name, hash, n)
    return store.bucket_of(store.prefix(meta) .. name .. ':', hash, n or store.buckets(meta, name))
end

-- Counts new fields of the bucketed hash; splits buckets when they have become too full, one for each new field at most.
--
-- hash_of: the hash of an entry by its field and value, the same that was given to `store.bucket`.
-- added: how many fields are new; below 0: how many are gone
-- n: how many buckets there are
-- buckets_max: there may be
function store.fields_added(meta, name, hash_of, added, n, buckets_max)
    local count = redis.call('HINCRBY', meta, name .. '_count', digits(added))
    local most = math.min(n + math.max(added, 0), buckets_max or math.huge)
    if count <= store.bucket_load * n or n >= most then return end
    local head = store.prefix(meta) .. name .. ':'
    repeat
        local _, exponent = math.frexp(n)
        local from, to = head .. digits(n - math.ldexp(1, exponent - 1)), head .. digits(n)
        local fields = redis.call('HGETALL', from)
        for i = 1, #fields, 2 do
            if bucket_index(hash_of(fields[i], fields[i + 1]), n + 1) == n then
                redis.call('HSET', to, fields[i], fields[i + 1])
                redis.call('HDEL', from, fields[i])
            end
        end
        n = n + 1
        redis.call('HSET', meta, name, digits(n))
    until count <= store.bucket_load * n or n >= most
end

-- Counts a new field of the bucketed hash.
function store.field_added(meta, name, hash_of, buckets_max)
    store.fields_added(meta, name, hash_of, 1, store.buckets(meta, name), buckets_max)
end

-- Counts a field less.
function store.field_removed(meta, name)
    redis.call('HINCRBY', meta, name .. '_count', -1)
end

-- Returns the slab of an ordinal and its field there.
function store.record_place(meta, ordinal)
    local field = ordinal % store.slab
    return store.prefix(meta) .. 'rec:' .. digits((ordinal - field) / store.slab), digits(field)
end

-- Returns the hash where the badge of an ordinal is counted; its field there is the record's.
function store.badge_key(meta, ordinal)
    return store.prefix(meta) .. 'badge:' .. digits(math.floor(ordinal / store.slab))
end

-- Returns the number of buckets for the ids of a place; false when no device ever was there. For callers that look for many devices.
function store.id_buckets(meta)
    return redis.call('HGET', meta, 'next') and store.buckets(meta, 'id')
end

-- Returns the ordinal and the record of a device in a place with that prefix and that many buckets of ids; nothing when it is not there.
function store.find_in(prefix, digest, n)
    local ordinal = redis.call('HGET', store.bucket_of(prefix .. 'id:', store.digest_hash(digest), n), digest)
    if not ordinal then return nil end
    ordinal = tonumber(ordinal)
    local field = ordinal % store.slab
    return ordinal, redis.call('HGET', prefix .. 'rec:' .. digits((ordinal - field) / store.slab), digits(field))
end

-- The ordinal and the record of a device in a place; nothing when it is not there.
function store.find(meta, digest)
    return store.find_in(store.prefix(meta), digest, store.buckets(meta, 'id'))
end

-- Postings. Which ordinals of a chunk are in a topic, in one of three forms:
--   few     below 32: packed, as a field of the bucketed hash `few`: topic (4 bytes) and chunk (1 byte, or 2 from 256
--           on), big endian
--   packed  below 256: the key `topic:<n>:<chunk>`; two bytes each, big endian, ascending, within the chunk
--   bitmap  the same key, exactly 512 bytes, the first ordinal in the highest bit of the first byte
-- The length tells the forms apart. Topic 0 is everyone.
function store.few_hash(field)
    local topic, chunk = struct.unpack(#field == 5 and '>I4I1' or '>I4I2', field)
    local mixed = (topic * 2053 + chunk * 40503) % 4294967296
    return bit.bxor(mixed, bit.rshift(mixed, 8), bit.rshift(mixed, 17)) % 4294967296
end

-- Returns the position that `member` has or would have in packed ordinals, in members from 0; and whether it is there.
local function packed_find(packed, member)
    local low, high = 0, #packed / 2
    while low < high do
        local middle = math.floor((low + high) / 2)
        local a, b = string.byte(packed, middle * 2 + 1, middle * 2 + 2)
        if a * 256 + b < member then low = middle + 1 else high = middle end
    end
    local a, b = string.byte(packed, low * 2 + 1, low * 2 + 2)
    return low, a ~= nil and a * 256 + b == member
end

function store.packed_insert(packed, member)
    local text = string.char(math.floor(member / 256), member % 256)
    -- A new device has the highest ordinal of all as a rule. Numbers are compared, since texts are ordered as the language of the server has it.
    local high, low = string.byte(packed, -2, -1)
    if not high or high * 256 + low < member then return packed .. text end
    local index, found = packed_find(packed, member)
    if found then return packed end
    return string.sub(packed, 1, index * 2) .. text .. string.sub(packed, index * 2 + 1)
end

local function packed_remove(packed, member)
    local index, found = packed_find(packed, member)
    if not found then return packed end
    return string.sub(packed, 1, index * 2) .. string.sub(packed, index * 2 + 3)
end

function store.bitmap_from_packed(packed)
    local bytes = {}
    for i = 1, store.bitmap_bytes do bytes[i] = 0 end
    for i = 1, #packed, 2 do
        local a, b = string.byte(packed, i, i + 1)
        local member = a * 256 + b
        local index = math.floor(member / 8) + 1
        bytes[index] = bytes[index] + 2 ^ (7 - member % 8)
    end
    return string.char(unpack(bytes))
end

local function packed_from_bitmap(bitmap)
    local members = {}
    for index = 0, #bitmap - 1 do
        local byte = string.byte(bitmap, index + 1)
        for position = 0, 7 do
            if byte >= 128 then
                local member = index * 8 + position
                members[#members + 1] = string.char(math.floor(member / 256), member % 256)
            end
            byte = (byte * 2) % 256
        end
    end
    return table.concat(members)
end

function store.posting_key(meta, topic, chunk)
    return store.prefix(meta) .. 'topic:' .. topic .. ':' .. chunk
end

-- Returns the field of a small posting.
function store.few_field(topic, chunk)
    return struct.pack(chunk < 256 and '>I4I1' or '>I4I2', topic, chunk)
end

-- Returns the field of a small posting and the bucket it lives in; n is the number of buckets, when the caller has it.
function store.few_place(meta, topic, chunk, n)
    local field = store.few_field(topic, chunk)
    return field, store.bucket(meta, 'few', store.few_hash(field), n)
end

-- Enters an ordinal in a topic's posting. Does nothing when it is there.
function store.posting_add(meta, topic, ordinal)
    local chunk, member = math.floor(ordinal / store.chunk), ordinal % store.chunk
    local key = store.posting_key(meta, topic, chunk)
    local length = redis.call('STRLEN', key)
    if length == store.bitmap_bytes then
        redis.call('SETBIT', key, member, 1)
        return
    end
    if length > 0 then
        local packed = store.packed_insert(redis.call('GET', key), member)
        if #packed == length then return end
        if #packed / 2 >= store.bitmap_from then packed = store.bitmap_from_packed(packed) end
        redis.call('SET', key, packed)
        return
    end
    local field, bucket = store.few_place(meta, topic, chunk)
    local few = redis.call('HGET', bucket, field)
    local packed = store.packed_insert(few or '', member)
    if #packed / 2 < store.few_max then
        redis.call('HSET', bucket, field, packed)
        if not few then store.field_added(meta, 'few', store.few_hash) end
    else
        redis.call('SET', key, packed)
        redis.call('HDEL', bucket, field)
        store.field_removed(meta, 'few')
    end
end

-- Removes an ordinal from a topic's posting. Does nothing when it is not there.
function store.posting_remove(meta, topic, ordinal)
    local chunk, member = math.floor(ordinal / store.chunk), ordinal % store.chunk
    local key = store.posting_key(meta, topic, chunk)
    local length = redis.call('STRLEN', key)
    if length == store.bitmap_bytes then
        redis.call('SETBIT', key, member, 0)
        if redis.call('BITCOUNT', key) < store.packed_again then
            redis.call('SET', key, packed_from_bitmap(redis.call('GET', key)))
        end
        return
    end
    if length > 0 then
        local packed = packed_remove(redis.call('GET', key), member)
        if #packed / 2 >= store.few_again then
            if #packed ~= length then redis.call('SET', key, packed) end
            return
        end
        local field, bucket = store.few_place(meta, topic, chunk)
        redis.call('HSET', bucket, field, packed)
        redis.call('DEL', key)
        store.field_added(meta, 'few', store.few_hash)
        return
    end
    local field, bucket = store.few_place(meta, topic, chunk)
    local few = redis.call('HGET', bucket, field)
    if not few then return end
    local packed = packed_remove(few, member)
    if #packed == 0 then
        redis.call('HDEL', bucket, field)
        store.field_removed(meta, 'few')
    elseif #packed ~= #few then
        redis.call('HSET', bucket, field, packed)
    end
end

-- Returns topic numbers of four bytes each, big endian, as a table; nothing when they are malformed or too many.
function store.topics(packed)
    if packed == '' then return none end
    if #packed % 4 ~= 0 or #packed / 4 > store.topics_max then return nil end
    local topics = {}
    for i = 1, #packed, 4 do
        local topic = struct.unpack('>I4', packed, i)
        if topic == 0 then return nil end
        topics[#topics + 1] = topic
    end
    return topics
end

-- Removes a device from a place: record, badge, id, postings. Its ordinal goes to rest.
function store.evict(meta, digest, ordinal, topics, now)
    local slab, field = store.record_place(meta, ordinal)
    redis.call('HDEL', slab, field)
    redis.call('HDEL', store.badge_key(meta, ordinal), field)
    redis.call('HDEL', store.bucket(meta, 'id', store.digest_hash(digest)), digest)
    store.field_removed(meta, 'id')
    store.posting_remove(meta, 0, ordinal)
    for _, topic in ipairs(topics) do store.posting_remove(meta, topic, ordinal) end
    redis.call('RPUSH', store.prefix(meta) .. 'freed', struct.pack('>I4I8', ordinal, now))
end
