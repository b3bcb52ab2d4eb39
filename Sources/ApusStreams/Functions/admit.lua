-- Decides whether a direct send may go out: its key names it and no other, and no other send has its id. One of which the ledger is kept
-- has gone out.
-- KEYS: 1 {q}idem
-- ARGV: 1 app, 2 key ('' none), 3 digest of the body, 4 send id, 5 origin (mailbox key / entry)
-- Returns: {'new'} (also when this origin asks again) · {'again'} (this origin's send is kept) · {'duplicate', send} · {'conflict', send}
redis.register_function{function_name = 'apus1_admit', flags = {'allow-oom'}, callback = function(keys, args)
    local tag, now = tag_of(keys[1]), now_ms()
    local is_known = args[2] == ''
    if not is_known then
        local digest, send, origin = idempotency_find(tag, args[1], args[2], now)
        if digest and digest ~= args[3] then
            return {'conflict', send}
        end
        if digest and origin ~= args[5] then
            return {'duplicate', send}
        end
        is_known = digest ~= nil
    end
    local kept = redis.call('HMGET', tag .. 'send:' .. args[4], 'origin', 'digest')
    if kept[1] == args[5] then
        return {'again'}
    end
    if kept[1] then
        return {kept[2] == args[3] and 'duplicate' or 'conflict', args[4]}
    end
    if not is_known then
        idempotency_put(tag, args[1], args[2], args[3], args[4], args[5], now)
    end
    return {'new'}
end}
