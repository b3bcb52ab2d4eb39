-- Makes a unit's progress durable: the done bitmap, the outcomes of the newly set bits and the retries, together or not at all;
-- renews the lease and answers whether to go on. With `finish`, also ends the unit. A report that comes twice is written once:
-- the journal begins with the number of the last one.
-- KEYS: 1 {q}work:<route>:<lane>, 2 {q}send:<id>
-- ARGV: 1 group, 2 consumer, 3 entry, 4 number of the report (4 bytes, big endian) and bitmap ('' only renews), 5 OutcomeBatch
--       ('' none), 6 '1' to finish, 7 number of retries, then per retry: due in ms, id, WorkUnit
-- Returns: 'running' · 'paused' · 'cancelled' · 'lost' (another owns the unit; nothing was written)
redis.register_function{function_name = 'apus1_progress', flags = {'allow-oom'}, callback = function(keys, args)
    local work, state = keys[1], keys[2]
    local group, consumer, entry = args[1], args[2], args[3]
    local tag, name = tag_of(work), name_of(work)
    if not owns(work, group, consumer, entry) then
        return 'lost'
    end
    local journal_field = name .. '/' .. entry
    local known = redis.call('HGET', tag .. 'journal', journal_field)
    if known and args[4] ~= '' and string.sub(known, 1, 4) >= string.sub(args[4], 1, 4) then
        renew(work, group, consumer, entry, false)
        return redis.call('HGET', state, 'state') or 'cancelled'
    end
    for index = 0, tonumber(args[7]) - 1 do
        add_due(tag, args[8 + index * 3], args[9 + index * 3], name, args[10 + index * 3])
    end
    if args[5] ~= '' then
        redis.call('XADD', tag .. 'outcomes', '*', 'm', args[5])
    end
    if args[6] == '1' then
        redis.call('HDEL', tag .. 'journal', journal_field)
        done(work, group, entry)
    else
        if args[4] ~= '' then
            redis.call('HSET', tag .. 'journal', journal_field, args[4])
        end
        renew(work, group, consumer, entry, args[4] ~= '')
    end
    return redis.call('HGET', state, 'state') or 'cancelled'
end}
