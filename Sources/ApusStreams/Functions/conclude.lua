-- Ends a direct send: writes its outcomes and acknowledges its mailbox entry.
-- KEYS: 1 {q}in:<lane>
-- ARGV: 1 group, 2 consumer, 3 entry, then one OutcomeBatch per route
-- Returns: 1 · 0 (another owns the entry; nothing was written)
redis.register_function{function_name = 'apus1_conclude', flags = {'allow-oom'}, callback = function(keys, args)
    local mailbox, group, consumer, entry = keys[1], args[1], args[2], args[3]
    if not owns(mailbox, group, consumer, entry) then
        return 0
    end
    for index = 4, #args do
        redis.call('XADD', tag_of(mailbox) .. 'outcomes', '*', 'm', args[index])
    end
    done(mailbox, group, entry)
    return 1
end}
