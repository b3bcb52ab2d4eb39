-- Reads what a place holds.
--
-- KEYS[1]  meta of the place
-- returns  {next ordinal, live devices, generation, freed ordinals at rest, buckets of ids, buckets of small postings}
local function store_meta(keys)
    local values = redis.call('HMGET', keys[1], 'next', 'id_count', 'generation', 'id', 'few')
    local function number(text, otherwise) return tonumber(text or otherwise) end
    return {
        number(values[1], 0), number(values[2], 0), number(values[3], 0),
        redis.call('LLEN', store.prefix(keys[1]) .. 'freed'),
        number(values[4], 1), number(values[5], 1),
    }
end

redis.register_function { function_name = 'apus1_store_meta', callback = store_meta, flags = { 'no-writes' } }
