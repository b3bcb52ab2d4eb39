-- Moves what is due to its stream. Also finishes what a resume or a cancellation left half-done: entries put aside whose send is not
-- paused, of a few sends at a time.
-- KEYS: 1 {q}due
-- ARGV: 1 how many at most
-- Returns: {moved, ms until the next (-1 none), then per message: id that it was filed by, id in its stream}
local SENDS_RELEASED_MAX = 4

redis.register_function{function_name = 'apus1_due', flags = {'allow-oom'}, callback = function(keys, args)
    local due, now = keys[1], now_ms()
    local ids = redis.call('ZRANGEBYSCORE', due, '-inf', digits(now), 'LIMIT', 0, args[1])
    local moves = {}
    for _, id in ipairs(ids) do
        local entry = move_due(due, id, '')
        if entry then
            moves[#moves + 1] = id
            moves[#moves + 1] = entry
        end
    end
    local tag = tag_of(due)
    for _, send in ipairs(redis.call('HRANDFIELD', tag .. 'held', SENDS_RELEASED_MAX)) do
        if not is_paused(tag, send) then
            release(tag, send, tonumber(args[1]))
        end
    end
    local next_one = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
    local wait = -1
    if next_one[2] then
        wait = math.max(0, tonumber(next_one[2]) - now)
    end
    return {#moves / 2, wait, unpack(moves)}
end}

-- Moves the same messages again, under the ids that they had in their streams: after a failover the server may have forgotten that they
-- were moved, and what has become of them is told by those ids.
-- KEYS: 1 {q}due
-- ARGV: per message: id that it was filed by, id in its stream
-- Returns: how many were filed
redis.register_function{function_name = 'apus1_due_again', flags = {'allow-oom'}, callback = function(keys, args)
    local moved = 0
    for index = 1, #args, 2 do
        moved = moved + (move_due(keys[1], args[index], args[index + 1]) and 1 or 0)
    end
    return moved
end}
