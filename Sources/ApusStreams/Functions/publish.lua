-- Writes a command into a mailbox, once per idempotency key, unless the mailbox is full.
-- KEYS: 1 {q}in:<lane>
-- ARGV: 1 app, 2 idempotency key or '', 3 digest of the body, 4 send id, 5 entries the mailbox may hold, 6 SendCommand
-- Returns: {'new', send, entry} · {'duplicate', send} · {'conflict', send} · {'full', entries}
redis.register_function{function_name = 'apus1_publish', callback = function(keys, args)
    local mailbox, app, key, digest, send = keys[1], args[1], args[2], args[3], args[4]
    local tag, now = tag_of(mailbox), now_ms()
    if key ~= '' then
        local known_digest, known_send = idempotency_find(tag, app, key, now)
        if known_digest then
            return {known_digest == digest and 'duplicate' or 'conflict', known_send}
        end
    end
    local length = redis.call('XLEN', mailbox)
    if length >= tonumber(args[5]) then
        return {'full', length}
    end
    local entry = redis.call('XADD', mailbox, '*', 'm', args[6])
    if key ~= '' then
        idempotency_put(tag, app, key, digest, send, mailbox .. '/' .. entry, now)
    end
    return {'new', send, entry}
end}
