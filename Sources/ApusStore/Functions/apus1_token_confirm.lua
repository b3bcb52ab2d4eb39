-- Confirms a claim, after the claimer's record holds the token and the others' were cleared.
--
-- An unconfirmed claim of another stays beside ours: its record may be about to hold the token, and its own confirm will
-- tell it that it came second.
--
-- KEYS[1]  `{t}<app>:meta`, t from the token
-- ARGV[1]  digest of the token, 8 bytes
-- ARGV[2]  the claimer, 10 bytes
-- ARGV[3]  the owners whose records were cleared, 10 bytes each
-- returns  1: settled; 0: the claim was withdrawn meanwhile, claim again; -1: another claimed after us
local function token_confirm(keys, args)
    local meta, digest, claimer, cleared = keys[1], args[1], args[2], args[3]
    if #digest ~= 8 or #claimer ~= tokens.owner_bytes or #cleared % tokens.owner_bytes ~= 0 then
        return redis.error_reply('ERR apus1_token_confirm: malformed arguments')
    end
    local bucket, field = tokens.place(meta, digest)
    local value = redis.call('HGET', bucket, field)
    local owners = tokens.parse(value)
    if #owners == 0 then return 0 end
    if owners[1][2] ~= claimer then
        for i = 2, #owners do
            if owners[i][2] == claimer then return -1 end
        end
        return 0
    end
    local gone = {}
    for i = 1, #cleared, tokens.owner_bytes do gone[string.sub(cleared, i, i + tokens.owner_bytes - 1)] = true end
    local left = { { 's', claimer } }
    for i = 2, #owners do
        if owners[i][1] == 'p' or not gone[owners[i][2]] then left[#left + 1] = owners[i] end
    end
    redis.call('HSET', bucket, field, tokens.format(left))
    return 1
end

redis.register_function('apus1_token_confirm', token_confirm)
