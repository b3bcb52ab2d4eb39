-- Finds the holders of a token: the bucketed hash `tok` of `{t}<app>:meta`, digest of the token → owners. A hint beside the records,
-- but one that misses nobody: every device whose record holds the token is among its owners. The field is the digest's
-- first five bytes: tokens that share them (one in a million at most) share an entry, and who reads an owner's record
-- sees which token it holds.
--
-- An owner is 10 bytes: partition (2) and digest of the device id (8). The usual value is one owner, settled. Else each
-- owner has a letter before it: "p" has claimed and not yet confirmed (its record may be about to hold the token),
-- "s" is settled; the latest claimer stands first.
local tokens = { field_bytes = 5, owner_bytes = 10, owners_max = 8 }

-- The bucket of a token's digest, and the field there. n is the number of buckets, when the caller has it.
function tokens.place(meta, digest, n)
    return store.bucket(meta, 'tok', store.digest_hash(digest), n), string.sub(digest, 1, tokens.field_bytes)
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

-- Returns how many pairs of digest (8 bytes) and device (10 bytes) one argument has; nothing when it is malformed or has too many.
function tokens.count(packed)
    local count = #packed / (8 + tokens.owner_bytes)
    return count <= store.devices_max and count % 1 == 0 and count or nil
end

-- Returns the digest and the device of the pair with that number, from 1.
function tokens.pair(packed, number)
    local start = (number - 1) * (8 + tokens.owner_bytes)
    return string.sub(packed, start + 1, start + 8), string.sub(packed, start + 9, start + 8 + tokens.owner_bytes)
end

-- Enters a claim: the claimer first, not yet settled, and the others behind it. Does nothing when they are too many.
-- value: the owners until now
-- Returns: the others; whether it was entered
function tokens.enter_claim(bucket, field, claimer, value)
    if not value then
        redis.call('HSET', bucket, field, 'p' .. claimer)
        return {}, true
    end
    local owners, others = { { 'p', claimer } }, {}
    for _, owner in ipairs(tokens.parse(value)) do
        if owner[2] ~= claimer then
            owners[#owners + 1], others[#others + 1] = owner, owner[2]
        end
    end
    if #owners > tokens.owners_max then return others, false end
    redis.call('HSET', bucket, field, tokens.format(owners))
    return others, true
end

-- Settles a claim, unless it was withdrawn or another came after it. gone: the owners that were cleared, as a set.
-- Returns: 1 settled; 0 withdrawn; -1 another claimed after it
function tokens.settle(bucket, field, claimer, gone)
    local value = redis.call('HGET', bucket, field)
    if value == 'p' .. claimer then
        redis.call('HSET', bucket, field, claimer)
        return 1
    end
    local owners = tokens.parse(value)
    if #owners == 0 then return 0 end
    if owners[1][2] ~= claimer then
        for i = 2, #owners do
            if owners[i][2] == claimer then return -1 end
        end
        return 0
    end
    local left = { { 's', claimer } }
    for i = 2, #owners do
        if owners[i][1] == 'p' or not gone[owners[i][2]] then left[#left + 1] = owners[i] end
    end
    redis.call('HSET', bucket, field, tokens.format(left))
    return 1
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
        local n = store.buckets(meta, 'tok')
        local bucket, field = tokens.place(meta, digest, n)
        local value = redis.call('HGET', bucket, field)
        local others, is_entered = tokens.enter_claim(bucket, field, claimer, value)
        if not value then store.fields_added(meta, 'tok', store.digest_hash, 1, n) end
        local answer = { is_entered and 1 or 0 }
        for i, other in ipairs(others) do answer[i + 1] = other end
        return answer
    end,
}

-- Claims tokens for devices as `apus2_claim_token` claims each, but leaves alone those of which the device is the only owner, and settled.
-- KEYS: 1 `{t}<app>:meta`, t from the tokens
-- Returns: for each a letter, and the other owners: "s" the device is the only one, and settled; "c" claimed; "f" too many unfinished claims;
--          "o" others own it or have claimed it, and it was left to them
register_function{
    name = 'apus2_claim_tokens',
    required = 1,
    run = function(
        keys,
        claims, -- at most 64: digest of the token (8 bytes) and claimer (10) each
        leaves_owned -- what others own or have claimed is left to them
    )
        local meta = keys[1]
        local count = tokens.count(claims)
        if not count then return redis.error_reply('ERR apus2_claim_tokens: malformed arguments') end
        local head, n, answer, added = store.prefix(meta) .. 'tok:', store.buckets(meta, 'tok'), {}, 0
        for i = 1, count do
            local digest, claimer = tokens.pair(claims, i)
            local bucket, field = store.bucket_of(head, store.digest_hash(digest), n), string.sub(digest, 1, tokens.field_bytes)
            local value = redis.call('HGET', bucket, field)
            if value == claimer then
                answer[i] = 's'
            elseif leaves_owned and value and value ~= 'p' .. claimer then
                answer[i] = 'o'
            else
                local others, is_entered = tokens.enter_claim(bucket, field, claimer, value)
                answer[i] = (is_entered and 'c' or 'f') .. table.concat(others)
                if not value then added = added + 1 end
            end
        end
        if added > 0 then store.fields_added(meta, 'tok', store.digest_hash, added, n) end
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
        local gone = {}
        for i = 1, #cleared, tokens.owner_bytes do gone[string.sub(cleared, i, i + tokens.owner_bytes - 1)] = true end
        local bucket, field = tokens.place(meta, digest)
        return tokens.settle(bucket, field, claimer, gone)
    end,
}

-- Confirms claims as `apus2_confirm_token` confirms each, where nobody was cleared.
-- KEYS: 1 `{t}<app>:meta`, t from the tokens
-- Returns: for each what `apus2_confirm_token` returns
register_function{
    name = 'apus2_confirm_tokens',
    required = 1,
    run = function(
        keys,
        claims -- at most 64: digest of the token (8 bytes) and claimer (10) each
    )
        local meta = keys[1]
        local count = tokens.count(claims)
        if not count then return redis.error_reply('ERR apus2_confirm_tokens: malformed arguments') end
        local head, n, answer = store.prefix(meta) .. 'tok:', store.buckets(meta, 'tok'), {}
        for i = 1, count do
            local digest, claimer = tokens.pair(claims, i)
            local bucket, field = store.bucket_of(head, store.digest_hash(digest), n), string.sub(digest, 1, tokens.field_bytes)
            answer[i] = tokens.settle(bucket, field, claimer, none)
        end
        return answer
    end,
}

-- Tells for which tokens a device is the only owner, and settled.
-- KEYS: 1 `{t}<app>:meta`, t from the tokens
-- Returns: 1 or 0 for each
register_function{
    name = 'apus2_settled_tokens',
    flags = {'no-writes'},
    required = 1,
    run = function(
        keys,
        claims -- at most 64: digest of the token (8 bytes) and device (10) each
    )
        local meta = keys[1]
        local count = tokens.count(claims)
        if not count then return redis.error_reply('ERR apus2_settled_tokens: malformed arguments') end
        local n, answer = store.buckets(meta, 'tok'), {}
        for i = 1, count do
            local digest, device = tokens.pair(claims, i)
            answer[i] = redis.call('HGET', tokens.place(meta, digest, n)) == device and 1 or 0
        end
        return answer
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
