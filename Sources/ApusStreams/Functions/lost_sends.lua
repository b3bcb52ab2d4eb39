-- These functions end sends of which something was lost, as after a Redis that came back without its last writes.
local SWEEP_ENTRIES_MAX = 2000 -- of all streams
local SWEEP_OUTCOMES_MAX = 500
local SWEEP_DUE_MAX = 20000 -- ids that wait for their time
local SWEEP_PAGE = 100
local SWEEP_DUE_PAGE = 1000

-- Returns true when a stream holds a message of the send; reads it page by page.
local function stream_has(stream, is_mine)
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

-- Searches for what is left of a send: returns 'left', 'much', or nil for nothing. It begins with the cheapest places, because Redis serves
-- nobody else meanwhile.
local function find_left(tag, send, streams, unit_prefix, outcomes_prefix)
    local due, outcomes = tag .. 'due', tag .. 'outcomes'
    if redis.call('EXISTS', tag .. 'held:' .. send) == 1 then
        return 'left'
    end
    local plans, units = {}, {}
    local waiting = redis.call('XLEN', outcomes)
    local is_much = waiting > SWEEP_OUTCOMES_MAX
    for _, name in ipairs(streams) do
        local stream = tag .. name
        local length = redis.call('XLEN', stream)
        waiting = waiting + length
        if string.match(name, '^plan:') then
            if redis.call('ZSCORE', due, send .. '/' .. string.gsub(name, ':', '/', 1)) then
                return 'left'
            end
            plans[#plans + 1] = length > 0 and stream or nil
        else
            units[#units + 1] = length > 0 and stream or nil
        end
    end
    if is_much or waiting > SWEEP_ENTRIES_MAX or redis.call('ZCARD', due) > SWEEP_DUE_MAX then
        return 'much'
    end
    local function begins_with(prefix)
        return function(message) return string.sub(message, 1, #prefix) == prefix end
    end
    for _, plan in ipairs(plans) do
        if stream_has(plan, function(message) return message == send end) then
            return 'left'
        end
    end
    if stream_has(outcomes, begins_with(outcomes_prefix)) then
        return 'left'
    end
    for _, stream in ipairs(units) do
        if stream_has(stream, begins_with(unit_prefix)) then
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

-- Decides whether the caller looks for lost sends in a shard: it does when nobody else did within that time.
-- KEYS: 1 {q}swept
-- Returns: 1 · 0 (another caller did)
register_function{
    name = 'apus2_begin_sweep',
    flags = {'allow-oom'},
    required = 1,
    run = function(keys, period_ms)
        return redis.call('SET', keys[1], '1', 'NX', 'PX', period_ms) and 1 or 0
    end,
}

-- Ends a send of which nothing is left although not every recipient has its outcome: the remaining recipients are closed, and the send
-- waits for no route any more. All happens in one call, so nothing can be on its way from one place to another.
-- KEYS: 1 {q}send:<app>/<id>
-- Returns: 'gone' (there is no such send, or it is complete) · 'fresh' (something happened to it lately) · 'moved' (the counts are other
--          ones) · 'left' (something of it waits or is in hand) · 'much' (too much waits to look for it) · 'closed'
register_function{
    name = 'apus2_close_lost_send',
    flags = {'allow-oom'},
    required = 7,
    run = function(
        keys,
        silence_ms, -- for which nothing may have happened to it
        planned, -- recipients, in digits, as the caller knows them
        closed, -- recipients, in digits, as the caller knows them
        unit_prefix, -- that every WorkUnit of this send begins with
        outcomes_prefix, -- that every OutcomeBatch of this send begins with
        outcomes, -- OutcomeBatch that closes the rest
        streams -- names of the streams of plans and units
    )
        local state = keys[1]
        local tag, send, now = tag_of(state), send_of(state), now_ms()
        local known = redis.call('HMGET', state, 'state', 'planned', 'closed', 'accepted_at', 'last_at')
        if not known[1] or known[1] == 'done' then
            return 'gone'
        end
        for index = 4, 5 do
            -- A time in the future does not count: the clock was set back.
            local age = now - tonumber(known[index] or '0')
            if age >= 0 and age < silence_ms then
                return 'fresh'
            end
        end
        if known[2] ~= planned or known[3] ~= closed then
            return 'moved'
        end
        local found = find_left(tag, send, streams, unit_prefix, outcomes_prefix)
        if found then
            return found
        end
        redis.call('HSET', state, 'planning', '0')
        redis.call('XADD', tag .. 'outcomes', '*', 'm', outcomes)
        return 'closed'
    end,
}
