-- Brings the message of a dead letter back to its stream, and takes the letter away. What was a part of a send is planned again, as
-- long as the send runs: its recipients were closed as failed when it was buried, and are counted anew.
-- KEYS: 1 {q}dead, 2 the stream
-- ARGV: 1 entry of the letter, 2 message, 3 send ('' none), 4 recipients to plan again
-- Returns: {'replayed', entry} · {'gone'} (no such letter, or no longer) · {'ended', state} (the send is over or gone; the letter stays)
redis.register_function{function_name = 'apus1_replay', callback = function(keys, args)
    local dead, stream = keys[1], keys[2]
    if #redis.call('XRANGE', dead, args[1], args[1]) == 0 then
        return {'gone'}
    end
    if args[3] ~= '' then
        local state = tag_of(dead) .. 'send:' .. args[3]
        local known = redis.call('HGET', state, 'state')
        if known ~= 'running' and known ~= 'paused' then
            return {'ended', known or 'forgotten'}
        end
        redis.call('HINCRBY', state, 'planned', args[4])
        if string.match(name_of(stream), '^plan:') then
            redis.call('HINCRBY', state, 'planning', 1)
        end
    end
    local entry = redis.call('XADD', stream, '*', 'm', args[2])
    redis.call('XDEL', dead, args[1])
    return {'replayed', entry}
end}
