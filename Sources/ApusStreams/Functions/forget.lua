-- Forgets an idempotency key that one origin holds, so that the same command may come from another: before it is replayed.
-- KEYS: 1 {q}idem
-- ARGV: 1 app, 2 key, 3 origin (mailbox key / entry)
-- Returns: 1 forgotten · 0 no such key, or another origin's
redis.register_function{function_name = 'apus1_forget', flags = {'allow-oom'}, callback = function(keys, args)
    local _, _, origin, place = idempotency_find(tag_of(keys[1]), args[1], args[2], now_ms())
    if origin ~= args[3] then
        return 0
    end
    return redis.call('HDEL', place, idempotency_field(args[1], args[2]))
end}
