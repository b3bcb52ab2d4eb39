-- Who holds a token: the bucketed hash `tok` of `{t}<app>:meta`, digest of the token → owners. A hint beside the records,
-- but one that misses nobody: every device whose record holds the token is among its owners. The field is the digest's
-- first five bytes: tokens that share them (one in a million at most) share an entry, and who reads an owner's record
-- sees which token it holds.
--
-- An owner is 10 bytes: partition (2) and digest of the device id (8). The usual value is one owner, settled. Else each
-- owner has a letter before it: "p" has claimed and not yet confirmed (its record may be about to hold the token),
-- "s" is settled; the latest claimer stands first.
local tokens = { field_bytes = 5, owner_bytes = 10, owners_max = 8 }

-- The bucket of a token's digest, and the field there.
function tokens.place(meta, digest)
    return store.bucket(meta, 'tok', store.digest_hash(digest)), string.sub(digest, 1, tokens.field_bytes)
end

-- The owners as a table of {flag, owner}.
function tokens.parse(value)
    if not value then return {} end
    if #value == tokens.owner_bytes then return { { 's', value } } end
    local owners = {}
    for i = 1, #value, tokens.owner_bytes + 1 do
        owners[#owners + 1] = { string.sub(value, i, i), string.sub(value, i + 1, i + tokens.owner_bytes) }
    end
    return owners
end

function tokens.format(owners)
    if #owners == 1 and owners[1][1] == 's' then return owners[1][2] end
    local parts = {}
    for i, owner in ipairs(owners) do parts[i] = owner[1] .. owner[2] end
    return table.concat(parts)
end

-- Claims a token for a device, before its record is written: the first of the steps claim, clear the others, put, confirm.
-- KEYS: 1 `{t}<app>:meta`, t from the token
-- Returns: {1, other owner…}: claimed; the records of the others must be cleared of the token.
--          {0, other owner…}: too many unfinished claims; clear and release these, then claim again
register_function{
    name = 'apus2_claim_token',
    required = 2,
    run = function(
        keys,
        digest, -- of the token, 8 bytes
        claimer -- 10 bytes
    )
        local meta = keys[1]
        if #digest ~= 8 or #claimer ~= tokens.owner_bytes then
            return redis.error_reply('ERR apus2_claim_token: malformed arguments')
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
    end,
}

-- Confirms a claim, after the claimer's record holds the token and the others' were cleared.
--
-- An unconfirmed claim of another stays beside ours: its record may be about to hold the token, and its own confirm will
-- tell it that it came second.
-- KEYS: 1 `{t}<app>:meta`, t from the token
-- Returns: 1: settled; 0: the claim was withdrawn meanwhile, claim again; -1: another claimed after us
register_function{
    name = 'apus2_confirm_token',
    required = 2,
    run = function(
        keys,
        digest, -- of the token, 8 bytes
        claimer, -- 10 bytes
        cleared -- the owners whose records were cleared, 10 bytes each
    )
        cleared = cleared or ''
        local meta = keys[1]
        if #digest ~= 8 or #claimer ~= tokens.owner_bytes or #cleared % tokens.owner_bytes ~= 0 then
            return redis.error_reply('ERR apus2_confirm_token: malformed arguments')
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
    end,
}

-- Takes a device from the owners of a token, after its record no longer holds it. Runs at a full Redis too: it drains.
-- KEYS: 1 `{t}<app>:meta`, t from the token
-- Returns: 1 when it was among them, else 0
register_function{
    name = 'apus2_release_token',
    flags = {'allow-oom'},
    required = 2,
    run = function(
        keys,
        digest, -- of the token, 8 bytes
        owner -- 10 bytes
    )
        local meta, leaver = keys[1], owner
        if #digest ~= 8 or #leaver ~= tokens.owner_bytes then
            return redis.error_reply('ERR apus2_release_token: malformed arguments')
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
    end,
}

-- Reads who holds a token.
-- KEYS: 1 `{t}<app>:meta`, t from the token
-- Returns: one string per owner: "s" (settled) or "p" (claimed), then partition and digest; the latest claimer first
register_function{
    name = 'apus2_token_owners',
    flags = {'no-writes'},
    required = 1,
    run = function(
        keys,
        digest -- of the token, 8 bytes
    )
        local meta = keys[1]
        if #digest ~= 8 then return redis.error_reply('ERR apus2_token_owners: malformed digest') end
        local answer = {}
        local value = redis.call('HGET', tokens.place(meta, digest))
        for i, owner in ipairs(tokens.parse(value)) do answer[i] = owner[1] .. owner[2] end
        return answer
    end,
}
