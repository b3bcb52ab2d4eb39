-- Decides whether a direct send may go out: its key names it and no other.
-- KEYS: 1 {q}idem
-- ARGV: 1 app, 2 key, 3 digest of the body, 4 send id, 5 origin (mailbox key / entry)
-- Returns: {'new'} (also when this origin asks again) · {'duplicate', send} · {'conflict', send}
redis.register_function{function_name = 'apus1_admit', flags = {'allow-oom'}, callback = function(keys, args)
    local tag, now = tag_of(keys[1]), now_ms()
    local digest, send, origin = idempotency_find(tag, args[1], args[2], now)
    if not digest then
        idempotency_put(tag, args[1], args[2], args[3], args[4], args[5], now)
        return {'new'}
    end
    if digest ~= args[3] then
        return {'conflict', send}
    end
    if origin ~= args[5] then
        return {'duplicate', send}
    end
    return {'new'}
end}
