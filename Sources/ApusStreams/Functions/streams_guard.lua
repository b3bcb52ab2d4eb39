-- The mass-failure guard of a route: tokens that a provider called bad wait, and are judged by what share of all answers they are.
--
-- {q}suspects:<route> holds who waits, by the time since when; {q}answers:<route> how many answers judged a token in each step of time
-- ('<ms>'), and in each hour how many did ('h<hour>') and how many of them made a suspect ('s<hour>').
-- They are looked at in three windows: a short one, in which a burst stands out from much that was good before; the whole time that
-- a suspect waits; and a day, for routes with so little to send that a mistake of ours makes few suspects in any ten minutes. While the
-- day's share is too high nobody is let go, however few they are. In quarantine nobody is until an operator says how.
--
-- What lies ahead of now began now: a clock that is set back only makes suspects wait longer.
local SUSPECTS_MAX = 1000000 -- of a route
local GUARD_STEPS = 6 -- of the short window
local GUARD_STEPS_MAX = 240 -- of the long one
local GUARD_HOUR_MS = 3600 * 1000
local GUARD_DAY_HOURS = 24

local function guard_keys(route)
    local tag, number = string.match(route, '^(%b{})route:(.*)$')
    return tag .. 'suspects:' .. number, tag .. 'answers:' .. number
end

local function guard_rules(args, first)
    local window, delay = tonumber(args[first]), tonumber(args[first + 1])
    return {
        window = window, delay = delay, least = tonumber(args[first + 2]), percent = tonumber(args[first + 3]),
        step = math.ceil(math.max(window / GUARD_STEPS, math.max(window, delay) / GUARD_STEPS_MAX)),
        now = tonumber(args[first + 4]) or now_ms(),
    }
end

-- Suspects and answers since a time; a step counts as long as a part of it does.
local function guard_counts(route, from, rules)
    local suspects, answers = guard_keys(route)
    local count = 0
    local steps = redis.call('HGETALL', answers)
    for index = 1, #steps, 2 do
        local step = tonumber(steps[index])
        if step and step > from - rules.step then
            count = count + tonumber(steps[index + 1])
        end
    end
    return redis.call('ZCOUNT', suspects, '(' .. digits(from), '+inf'), count
end

-- Suspects and answers of a day, those among them who were let go since.
local function guard_day(route, rules)
    local _, answers = guard_keys(route)
    local first = math.floor(rules.now / GUARD_HOUR_MS) - GUARD_DAY_HOURS
    local counts = {h = 0, s = 0}
    local steps = redis.call('HGETALL', answers)
    for index = 1, #steps, 2 do
        local kind, hour = string.match(steps[index], '^([hs])(%d+)$')
        if kind and tonumber(hour) > first then
            counts[kind] = counts[kind] + tonumber(steps[index + 1])
        end
    end
    return counts.s, counts.h
end

local function guard_is_much(suspects, answers, rules)
    return suspects * 100 > answers * rules.percent
end

-- Stops the route and keeps its suspects, if there are too many of them among the answers. Whether there are, and whether that is news.
local function guard_trips(route, rules)
    local forgiven = tonumber(redis.call('HGET', route, 'forgiven_at') or '0')
    if forgiven > rules.now then
        forgiven = 0
    end
    local windows = {}
    for _, length in ipairs({rules.window, math.max(rules.window, rules.delay)}) do
        windows[#windows + 1] = {guard_counts(route, math.max(forgiven, rules.now - length), rules)}
    end
    windows[#windows + 1] = {guard_day(route, rules)}
    for _, window in ipairs(windows) do
        local suspects, answers = window[1], window[2]
        if suspects >= rules.least and guard_is_much(suspects, answers, rules) then
            local stopped = redis.call('HSETNX', route, 'paused', 'guard')
            local begun = redis.call('HSETNX', route, 'quarantined_at', digits(rules.now))
            if begun == 1 then
                redis.call('HSET', route, 'quarantined_for', digits(suspects) .. '/' .. digits(answers))
            end
            return true, stopped + begun > 0
        end
    end
    return false, false
end

local function guard_note_answers(route, count, added, rules)
    local _, answers = guard_keys(route)
    local hour = math.floor(rules.now / GUARD_HOUR_MS)
    redis.call('HINCRBY', answers, digits(rules.now - rules.now % rules.step), digits(count))
    redis.call('HINCRBY', answers, 'h' .. digits(hour), digits(count))
    if added > 0 then
        redis.call('HINCRBY', answers, 's' .. digits(hour), digits(added))
    end
    redis.call('PEXPIRE', answers, digits(math.max(GUARD_DAY_HOURS * GUARD_HOUR_MS, rules.window + rules.delay)))
    local oldest = rules.now - math.max(rules.window, rules.delay) - rules.step
    for _, step in ipairs(redis.call('HKEYS', answers)) do
        local at, past = tonumber(step), tonumber(string.match(step, '^[hs](%d+)$'))
        if at and at < oldest or past and past <= hour - GUARD_DAY_HOURS then
            redis.call('HDEL', answers, step)
        end
    end
end

-- What was suspected before counts no more: an operator has looked at it.
local function guard_forgive(route, now)
    local _, answers = guard_keys(route)
    redis.call('HSET', route, 'forgiven_at', digits(now))
    redis.call('DEL', answers)
end
