-- Ends a send of which nothing is left although not every recipient has its outcome, as after a Redis that came back without its last
-- writes: the rest is closed, and no route is waited for any more. All in one call, so nothing can be on its way from one place to another.
-- KEYS: 1 {q}send:<id>
-- ARGV: 1 ms for which nothing may have happened to it, 2 recipients planned and 3 closed, as the caller knows them, 4 what every message
--       of this send begins with, 5 OutcomeBatch that closes the rest, then the names of the streams of plans and units, without the tag
-- Returns: 'gone' (there is no such send, or it is complete) · 'fresh' (something happened to it lately) · 'moved' (the counts are other
--          ones) · 'left' (something of it waits or is in hand) · 'much' (too much waits to look for it) · 'closed'
local SWEEP_ENTRIES_MAX = 20000 -- of all streams, and as many that wait for their time

local function sweep_finds(tag, send, args)
    if redis.call('EXISTS', tag .. 'held:' .. send) == 1 then
        return 'left'
    end
    local left = SWEEP_ENTRIES_MAX
    local function look(stream, is_mine)
        local length = redis.call('XLEN', stream)
        left = left - length
        if length == 0 or left < 0 then
            return false
        end
        for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+')) do
            if is_mine(entry[2][2]) then
                return true
            end
        end
        return false
    end
    local function begins(message)
        return string.sub(message, 1, #args[4]) == args[4]
    end
    local function is_name(message)
        return message == send
    end
    if look(tag .. 'outcomes', begins) then
        return 'left'
    end
    for index = 6, #args do
        if look(tag .. args[index], string.match(args[index], '^plan:') and is_name or begins) then
            return 'left'
        end
    end
    if left < 0 or redis.call('ZCARD', tag .. 'due') > SWEEP_ENTRIES_MAX then
        return 'much'
    end
    local head = send .. '/'
    for _, id in ipairs(redis.call('ZRANGE', tag .. 'due', 0, -1)) do
        if string.sub(id, 1, #head) == head then
            return 'left'
        end
    end
    return nil
end

redis.register_function{function_name = 'apus1_sweep', flags = {'allow-oom'}, callback = function(keys, args)
    local state = keys[1]
    local tag, send, now = tag_of(state), send_of(state), now_ms()
    local known = redis.call('HMGET', state, 'state', 'planned', 'closed', 'accepted_at', 'last_at')
    if not known[1] or known[1] == 'done' then
        return 'gone'
    end
    for index = 4, 5 do
        -- A time to come is none: the clock was set back.
        local age = now - tonumber(known[index] or '0')
        if age >= 0 and age < tonumber(args[1]) then
            return 'fresh'
        end
    end
    if known[2] ~= args[2] or known[3] ~= args[3] then
        return 'moved'
    end
    local found = sweep_finds(tag, send, args)
    if found then
        return found
    end
    redis.call('HSET', state, 'planning', '0')
    redis.call('XADD', tag .. 'outcomes', '*', 'm', args[5])
    return 'closed'
end}
