-- Takes a device from the owners of a token, after its record no longer holds it. Runs at a full Redis too: it drains.
--
-- KEYS[1]  `{t}<app>:meta`, t from the token
-- ARGV[1]  digest of the token, 8 bytes
-- ARGV[2]  the owner, 10 bytes
-- returns  1 when it was among them, else 0
local function token_release(keys, args)
    local meta, digest, leaver = keys[1], args[1], args[2]
    if #digest ~= 8 or #leaver ~= tokens.owner_bytes then
        return redis.error_reply('ERR apus1_token_release: malformed arguments')
    end
    local bucket, field = tokens.place(meta, digest)
    local value = redis.call('HGET', bucket, field)
    local left, found = {}, 0
    for _, owner in ipairs(tokens.parse(value)) do
        if owner[2] == leaver then found = 1 else left[#left + 1] = owner end
    end
    if found == 0 then return 0 end
    if #left == 0 then
        redis.call('HDEL', bucket, field)
        store.field_removed(meta, 'tok')
    else
        redis.call('HSET', bucket, field, tokens.format(left))
    end
    return 1
end

redis.register_function { function_name = 'apus1_token_release', callback = token_release, flags = { 'allow-oom' } }
