-- Reads who holds a token.
--
-- KEYS[1]  `{t}<app>:meta`, t from the token
-- ARGV[1]  digest of the token, 8 bytes
-- returns  one string per owner: "s" (settled) or "p" (claimed), then partition and digest; the latest claimer first
local function token_owners(keys, args)
    local meta, digest = keys[1], args[1]
    if #digest ~= 8 then return redis.error_reply('ERR apus1_token_owners: malformed digest') end
    local answer = {}
    local value = redis.call('HGET', tokens.place(meta, digest))
    for i, owner in ipairs(tokens.parse(value)) do answer[i] = owner[1] .. owner[2] end
    return answer
end

redis.register_function { function_name = 'apus1_token_owners', callback = token_owners, flags = { 'no-writes' } }
