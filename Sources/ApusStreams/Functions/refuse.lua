-- Puts an entry aside for an operator, tells its publisher, closes its recipients in the ledger, and acknowledges it. A send does not
-- wait for a plan that is refused, but counts it: nobody knows whom it would have found.
-- KEYS: 1 stream
-- ARGV: 1 group, 2 consumer, 3 entry, 4 DeadLetter ('' none), 5 SendReceipt ('' none), 6 OutcomeBatch ('' none)
-- Returns: 1 · 0 (another owns the entry; nothing was written)
redis.register_function{function_name = 'apus1_refuse', flags = {'allow-oom'}, callback = function(keys, args)
    local stream, group, consumer, entry = keys[1], args[1], args[2], args[3]
    local tag = tag_of(stream)
    if not owns(stream, group, consumer, entry) then
        return 0
    end
    if string.match(name_of(stream), '^plan:') then
        local state = tag .. 'send:' .. redis.call('XRANGE', stream, entry, entry)[1][2][2]
        if redis.call('EXISTS', state) == 1 then
            redis.call('HINCRBY', state, 'planning', -1)
            redis.call('HINCRBY', state, 'unplanned', 1)
        end
    end
    if args[4] ~= '' then
        redis.call('XADD', tag .. 'dead', 'MAXLEN', '~', DEAD_LETTERS_MAX, '*', 'm', args[4])
    end
    if args[5] ~= '' then
        add_receipt(tag, args[5])
    end
    if args[6] ~= '' then
        redis.call('XADD', tag .. 'outcomes', '*', 'm', args[6])
    end
    redis.call('HDEL', tag .. 'journal', name_of(stream) .. '/' .. entry)
    done(stream, group, entry)
    return 1
end}
