-- What the window of idempotency knows by a key.
-- KEYS: 1 {q}idem
-- ARGV: 1 app, 2 key
-- Returns: {send, where its command was written} · {} nothing
redis.register_function{function_name = 'apus1_known', flags = {'no-writes'}, callback = function(keys, args)
    local _, send, origin = idempotency_find(tag_of(keys[1]), args[1], args[2], now_ms())
    if not send then
        return {}
    end
    return {send, origin}
end}
