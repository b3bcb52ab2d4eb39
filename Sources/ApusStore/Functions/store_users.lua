-- Which devices a user may have: the bucketed hash `user` of `{t}<app>:meta`, digest of the user → devices, ten bytes each:
-- partition (2) and digest of the device id (8). A hint: the records decide. The field is the digest's first four bytes;
-- users that share them share an entry.
local users = { field_bytes = 4, device_bytes = 10 }

-- The bucket of a user's digest, and the field there.
function users.place(meta, digest)
    return store.bucket(meta, 'user', store.digest_hash(digest)), string.sub(digest, 1, users.field_bytes)
end
