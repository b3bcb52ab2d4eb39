-- Opens a send again that has ended without all its plans; whether it could be. Not between its last outcome and the receipt of that:
-- the outcome would count twice.
local function reopen(tag, send)
    local state, body = tag .. 'send:' .. send, tag .. 'body:' .. send
    local known = redis.call('HMGET', state, 'state', 'unplanned', 'completed_by')
    if known[1] ~= 'done' or tonumber(known[2] or '0') <= 0 or redis.call('EXISTS', body) == 0
        or #redis.call('XRANGE', tag .. 'outcomes', known[3], known[3]) > 0 then
        return false
    end
    redis.call('HSET', state, 'state', 'running')
    redis.call('HINCRBY', state, 'reopened', 1)
    redis.call('PERSIST', state)
    redis.call('PERSIST', body)
    redis.call('SADD', tag .. 'sends', send)
    return true
end

-- Brings the message of a dead letter back to its stream, and takes the letter away. What was a part of a send is planned again, as
-- long as the send runs: its recipients were closed as failed when it was buried, and are counted anew. A plan goes on where it was,
-- also of a send that has ended without it.
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
        local is_plan = string.match(name_of(stream), '^plan:')
        if known ~= 'running' and known ~= 'paused' and not (is_plan and reopen(tag_of(dead), args[3])) then
            return {'ended', known or 'forgotten'}
        end
        redis.call('HINCRBY', state, 'planned', args[4])
        if is_plan then
            redis.call('HINCRBY', state, 'planning', 1)
            redis.call('HINCRBY', state, 'unplanned', -1)
        end
    end
    local entry = redis.call('XADD', stream, '*', 'm', args[2])
    redis.call('XDEL', dead, args[1])
    return {'replayed', entry}
end}
