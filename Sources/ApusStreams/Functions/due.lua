-- Moves what is due to its stream.
-- KEYS: 1 {q}due
-- ARGV: 1 how many at most
-- Returns: {moved, ms until the next (-1 none)}
redis.register_function{function_name = 'apus1_due', flags = {'allow-oom'}, callback = function(keys, args)
    local due, tag, now = keys[1], tag_of(keys[1]), now_ms()
    local ids = redis.call('ZRANGEBYSCORE', due, '-inf', digits(now), 'LIMIT', 0, args[1])
    local moved = 0
    for _, id in ipairs(ids) do
        local body = redis.call('HGET', tag .. 'due:body', id)
        if body then
            local stream, message = string.match(body, '^([^%z]*)%z(.*)$')
            redis.call('XADD', tag .. stream, '*', 'm', message)
            moved = moved + 1
        end
        redis.call('ZREM', due, id)
        redis.call('HDEL', tag .. 'due:body', id)
    end
    local next_one = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
    local wait = -1
    if next_one[2] then
        wait = math.max(0, tonumber(next_one[2]) - now)
    end
    return {moved, wait}
end}
