-- The mass-failure guard of a route: tokens that a provider called bad wait, and are judged by what share of all answers they are.
--
-- {q}suspects:<route> holds who waits, by the time since when; {q}answers:<route> how many answers judged a token in each step of time.
-- Both are looked at in two windows: a short one, in which a burst stands out from much that was good before, and the whole time that
-- a suspect waits. In quarantine nobody is let go until an operator says how.
--
-- What lies ahead of now began now: a clock that is set back only makes suspects wait longer.
local SUSPECTS_MAX = 1000000 -- of a route
local GUARD_STEPS = 6 -- of the short window
local GUARD_STEPS_MAX = 240 -- of the long one

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
        if tonumber(steps[index]) > from - rules.step then
            count = count + tonumber(steps[index + 1])
        end
    end
    return redis.call('ZCOUNT', suspects, '(' .. digits(from), '+inf'), count
end

-- Stops the route and keeps its suspects, if there are too many of them among the answers. Whether there are, and whether that is news.
local function guard_trips(route, rules)
    local forgiven = tonumber(redis.call('HGET', route, 'forgiven_at') or '0')
    if forgiven > rules.now then
        forgiven = 0
    end
    for _, length in ipairs({rules.window, math.max(rules.window, rules.delay)}) do
        local suspects, answers = guard_counts(route, math.max(forgiven, rules.now - length), rules)
        if suspects >= rules.least and suspects * 100 > answers * rules.percent then
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

local function guard_note_answers(route, count, rules)
    local _, answers = guard_keys(route)
    redis.call('HINCRBY', answers, digits(rules.now - rules.now % rules.step), digits(count))
    redis.call('PEXPIRE', answers, digits(rules.window + rules.delay))
    local oldest = rules.now - math.max(rules.window, rules.delay) - rules.step
    for _, step in ipairs(redis.call('HKEYS', answers)) do
        if tonumber(step) < oldest then
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
