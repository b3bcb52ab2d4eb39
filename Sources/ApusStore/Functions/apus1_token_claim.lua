-- Claims a token for a device, before its record is written: the first of the steps claim, clear the others, put, confirm.
--
-- KEYS[1]  `{t}<app>:meta`, t from the token
-- ARGV[1]  digest of the token, 8 bytes
-- ARGV[2]  the claimer, 10 bytes
-- returns  {1, other owner…}: claimed; the records of the others must be cleared of the token.
--          {0, other owner…}: too many unfinished claims; clear and release these, then claim again
local function token_claim(keys, args)
    local meta, digest, claimer = keys[1], args[1], args[2]
    if #digest ~= 8 or #claimer ~= tokens.owner_bytes then
        return redis.error_reply('ERR apus1_token_claim: malformed arguments')
    end
    local bucket, field = tokens.place(meta, digest)
    local value = redis.call('HGET', bucket, field)
    local owners, answer = { { 'p', claimer } }, { 1 }
    for _, owner in ipairs(tokens.parse(value)) do
        if owner[2] ~= claimer then
            owners[#owners + 1] = owner
            answer[#answer + 1] = owner[2]
        end
    end
    if #owners > tokens.owners_max then
        answer[1] = 0
        return answer
    end
    redis.call('HSET', bucket, field, tokens.format(owners))
    if not value then store.field_added(meta, 'tok', store.digest_hash) end
    return answer
end

redis.register_function('apus1_token_claim', token_claim)
