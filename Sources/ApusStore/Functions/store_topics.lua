-- Numbers of topics: the bucketed hash `topics` of `{t}<app>:meta`, name → counter. With the partition of the name a counter
-- makes the topic's number.
--
-- A counter is rank * 4096 + h + 1: h are twelve bits of the name's digest, the rank tells names of the same h apart. So
-- a counter leads to its name's bucket as the name does, and both directions take one structure.
local topics = { hashes = 4096 }

-- The hash of a name by the digest of the name.
function topics.hash(digest)
    return store.digest_hash(digest) % topics.hashes
end

-- The hash of a name by its counter.
function topics.hash_of_counter(counter)
    return (counter - 1) % topics.hashes
end
