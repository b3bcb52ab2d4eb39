-- The mass-failure guard of a route: tokens that a provider called bad wait in quarantine, and are judged by what share of all answers they
-- are.
--
-- {q}quarantine:<route> holds the tokens that wait, by the time since when; {q}answers:<route> how many answers judged a token in each step of
-- time ('<ms>'), and in each hour how many did ('h<hour>') and how many of them put a token in quarantine ('s<hour>').
-- They are looked at in three windows: a short one, in which a burst stands out from much that was good before; the whole time that
-- a token waits; and a day, for routes with so little to send that a mistake of ours makes few bad tokens in any ten minutes. While the
-- day's share is too high no token is due, however few they are. While the guard has stopped the route none is until an operator says how.
--
-- What lies ahead of now began now: a clock that is set back only makes tokens wait longer.
local QUARANTINED_TOKENS_MAX = 1000000 -- of a route
local GUARD_STEPS = 6 -- of the short window
local GUARD_STEPS_MAX = 240 -- of the long one
local GUARD_HOUR_MS = 3600 * 1000
local GUARD_DAY_HOURS = 24

local function guard_keys(route)
    local tag, number = string.match(route, '^(%b{})route:(.*)$')
    return tag .. 'quarantine:' .. number, tag .. 'answers:' .. number
end

local function guard_rules(window_ms, delay_ms, tokens_min, percent_max, at_ms)
    return {
        window = window_ms, delay = delay_ms, least = tokens_min, percent = percent_max,
        step = math.ceil(math.max(window_ms / GUARD_STEPS, math.max(window_ms, delay_ms) / GUARD_STEPS_MAX)),
        now = at_ms or now_ms(),
    }
end

-- Returns tokens and answers since a time; a step counts as long as a part of it does.
local function guard_counts(route, from, rules)
    local tokens, answers = guard_keys(route)
    local count = 0
    local steps = redis.call('HGETALL', answers)
    for index = 1, #steps, 2 do
        local step = tonumber(steps[index])
        if step and step > from - rules.step then
            count = count + tonumber(steps[index + 1])
        end
    end
    return redis.call('ZCOUNT', tokens, '(' .. digits(from), '+inf'), count
end

-- Returns tokens and answers of a day, with tokens that have left quarantine since.
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

local function guard_is_much(tokens, answers, rules)
    return tokens * 100 > answers * rules.percent
end

-- Stops the route and keeps its tokens in quarantine, if they are too many among the answers. Returns whether they are, and whether that is
-- news.
local function guard_trips(route, rules)
    local restarted = tonumber(redis.call('HGET', route, 'guard_restarted_at') or '0')
    if restarted > rules.now then
        restarted = 0
    end
    local windows = {}
    for _, length in ipairs({rules.window, math.max(rules.window, rules.delay)}) do
        windows[#windows + 1] = {guard_counts(route, math.max(restarted, rules.now - length), rules)}
    end
    windows[#windows + 1] = {guard_day(route, rules)}
    for _, window in ipairs(windows) do
        local tokens, answers = window[1], window[2]
        if tokens >= rules.least and guard_is_much(tokens, answers, rules) then
            local stopped = redis.call('HSETNX', route, 'paused', 'guard')
            local begun = redis.call('HSETNX', route, 'quarantined_at', digits(rules.now))
            if begun == 1 then
                redis.call('HSET', route, 'quarantined_for', digits(tokens) .. '/' .. digits(answers))
            end
            return true, stopped + begun > 0
        end
    end
    return false, false
end

local function guard_add_answers(route, count, added, rules)
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

-- Makes earlier answers count no more: an operator has looked at them.
local function guard_restart(route, now)
    local _, answers = guard_keys(route)
    redis.call('HSET', route, 'guard_restarted_at', digits(now))
    redis.call('DEL', answers)
end
