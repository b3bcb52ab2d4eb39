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
