-- Reads the postings of topics in a range of chunks of one place.
--
-- KEYS[1]  meta of the place
-- ARGV[1]  first chunk
-- ARGV[2]  number of chunks
-- ARGV[3…] topic numbers; 0 is everyone
-- returns  one string for each chunk and topic, chunk by chunk: nothing, packed ordinals (two bytes each, big endian,
--          ascending, within the chunk), or 512 bytes of bitmap (the first ordinal in the highest bit of the first byte).
--          At most 512 strings.
local function postings(keys, args)
    local first, count = tonumber(args[1]), tonumber(args[2])
    if not first or not count or count * (#args - 2) > 512 then
        return redis.error_reply('ERR apus1_postings: malformed range')
    end
    if count < 1 or #args < 3 then return {} end
    local meta = keys[1]
    local names, topics = {}, {}
    for i = 3, #args do topics[i - 2] = tonumber(args[i]) end
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
end

redis.register_function { function_name = 'apus1_postings', callback = postings, flags = { 'no-writes' } }
