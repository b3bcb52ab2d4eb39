-- Ends a send of which nothing is left although not every recipient has its outcome, as after a Redis that came back without its last
-- writes: the rest is closed, and no route is waited for any more. All in one call, so nothing can be on its way from one place to another.
-- KEYS: 1 {q}send:<id>
-- ARGV: 1 ms for which nothing may have happened to it, 2 recipients planned and 3 closed, as the caller knows them, 4 what every message
--       of this send begins with, 5 OutcomeBatch that closes the rest, then the names of the streams of plans and units, without the tag
-- Returns: 'gone' (there is no such send, or it is complete) · 'fresh' (something happened to it lately) · 'moved' (the counts are other
--          ones) · 'left' (something of it waits or is in hand) · 'much' (too much waits to look for it) · 'closed'
local SWEEP_ENTRIES_MAX = 2000 -- of all streams
local SWEEP_OUTCOMES_MAX = 500
local SWEEP_DUE_MAX = 20000 -- ids that wait for their time
local SWEEP_PAGE = 100
local SWEEP_DUE_PAGE = 1000

-- Looks at what a stream holds, page by page; whether one is the send's.
local function sweep_looks(stream, is_mine)
    local from, page = '-', nil
    repeat
        page = redis.call('XRANGE', stream, from, '+', 'COUNT', SWEEP_PAGE)
        for _, entry in ipairs(page) do
            if is_mine(entry[2][2]) then
                return true
            end
            from = '(' .. entry[1]
        end
    until #page < SWEEP_PAGE
    return false
end

-- What is cheap to ask comes first: Redis serves nobody else meanwhile.
local function sweep_finds(tag, send, args)
    local due, outcomes = tag .. 'due', tag .. 'outcomes'
    if redis.call('EXISTS', tag .. 'held:' .. send) == 1 then
        return 'left'
    end
    local plans, streams = {}, {}
    local waiting = redis.call('XLEN', outcomes)
    local is_much = waiting > SWEEP_OUTCOMES_MAX
    for index = 6, #args do
        local stream = tag .. args[index]
        local length = redis.call('XLEN', stream)
        waiting = waiting + length
        if string.match(args[index], '^plan:') then
            if redis.call('ZSCORE', due, send .. '/' .. string.gsub(args[index], ':', '/', 1)) then
                return 'left'
            end
            plans[#plans + 1] = length > 0 and stream or nil
        else
            streams[#streams + 1] = length > 0 and stream or nil
        end
    end
    if is_much or waiting > SWEEP_ENTRIES_MAX or redis.call('ZCARD', due) > SWEEP_DUE_MAX then
        return 'much'
    end
    local function begins(message)
        return string.sub(message, 1, #args[4]) == args[4]
    end
    for _, plan in ipairs(plans) do
        if sweep_looks(plan, function(message) return message == send end) then
            return 'left'
        end
    end
    if sweep_looks(outcomes, begins) then
        return 'left'
    end
    for _, stream in ipairs(streams) do
        if sweep_looks(stream, begins) then
            return 'left'
        end
    end
    local head = send .. '/'
    for first = 0, redis.call('ZCARD', due) - 1, SWEEP_DUE_PAGE do
        for _, id in ipairs(redis.call('ZRANGE', due, first, first + SWEEP_DUE_PAGE - 1)) do
            if string.sub(id, 1, #head) == head then
                return 'left'
            end
        end
    end
    return nil
end

-- Whether nobody looked for lost sends in a shard within that time: then it is the caller's to do.
-- KEYS: 1 {q}swept
-- ARGV: 1 ms
-- Returns: 1 · 0 (somebody has)
redis.register_function{function_name = 'apus1_sweep_begin', flags = {'allow-oom'}, callback = function(keys, args)
    return redis.call('SET', keys[1], '1', 'NX', 'PX', args[1]) and 1 or 0
end}

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
