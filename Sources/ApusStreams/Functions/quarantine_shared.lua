-- The mass-failure guard protects the tokens of a route: those that a provider called bad wait in quarantine, those that it called dead are
-- deleted at once, and both are compared with all answers.
--
-- {q}quarantine:<route> holds the waiting tokens, by the time since when. {q}answers:<route> counts the answers about tokens in each step
-- of time ('<ms>') and in each hour ('h<hour>'), and has when the clock was last set back ('set_back_at'). {q}bad_owners:<route> and {q}dead_owners:<route> hold the owners of tokens that were
-- called bad or dead, by the time of the last such answer. Owners are counted, not tokens: a user who registers many tokens cannot stop a
-- route. {q}new_bad_owners:<route> and {q}new_dead_owners:<route> hold those of whom only tokens were called so that had just been registered, or
-- again.
-- Such owners are as many of the answers as any others, but it takes more of them to stop a route: some dozens of accounts that register
-- invented tokens cannot. Three windows are checked: a short one, in which a burst stands out from many good answers before it; the whole time that a token
-- waits; and a day, for routes with so little traffic that a mistake of ours makes few bad tokens in any ten minutes. While the day's share
-- is too high no token is due, however few they are. While the guard has stopped the route, no token is due until an operator decides, and
-- tokens called dead wait with the others.
--
-- After the clock was set back, a token of a future time waits from the present on, so it only waits longer. Owners and answers of a future
-- time count in the day alone, and the shorter windows begin anew: owners are remembered for longer than the answers of single steps.
local QUARANTINED_TOKENS_MAX = 1000000 -- of a route
local OWNERS_MAX = 1000000 -- of a route, of each kind
local GUARD_STEPS = 6 -- of the short window
local GUARD_STEPS_MAX = 240 -- of the long one
local GUARD_HOUR_MS = 3600 * 1000
local GUARD_DAY_HOURS = 24
local GUARD_MOVES_MAX = 1000 -- entries that one call brings back from a time to come

local NEW_OWNERS_PER_OWNER = 5 -- owners of new tokens that stop a route as one other owner does

local function guard_keys(route)
    local tag, number = string.match(route, '^(%b{})route:(.*)$')
    return {
        quarantine = tag .. 'quarantine:' .. number,
        answers = tag .. 'answers:' .. number,
        bad_owners = tag .. 'bad_owners:' .. number,
        dead_owners = tag .. 'dead_owners:' .. number,
        new_bad_owners = tag .. 'new_bad_owners:' .. number,
        new_dead_owners = tag .. 'new_dead_owners:' .. number,
    }
end

local function guard_rules(window_ms, delay_ms, tokens_min, percent_max, dead_percent_max, at_ms)
    return {
        window = window_ms, delay = delay_ms, least = tokens_min, bad = percent_max, dead = dead_percent_max,
        step = math.ceil(math.max(window_ms / GUARD_STEPS, math.max(window_ms, delay_ms) / GUARD_STEPS_MAX)),
        now = at_ms or now_ms(),
    }
end

local function guard_begin_of_day(rules)
    return math.floor(rules.now / GUARD_HOUR_MS) - GUARD_DAY_HOURS + 1
end

-- Returns the owners of bad and of dead tokens between two times: how many, and for how many they count against the least that stops a route.
local function guard_owners(keys, from, to)
    local since, owners = '(' .. digits(from), {}
    for _, word in ipairs({'bad', 'dead'}) do
        local settled = redis.call('ZCOUNT', keys[word .. '_owners'], since, to)
        local new = redis.call('ZCOUNT', keys['new_' .. word .. '_owners'], since, to)
        owners[word] = {count = settled + new, weight = settled + new / NEW_OWNERS_PER_OWNER}
    end
    return owners
end

-- Returns the owners, and the answers since a time; a step counts if any part of it lies in that time.
local function guard_counts(route, from, rules)
    local keys, answers = guard_keys(route), 0
    local steps = redis.call('HGETALL', keys.answers)
    for index = 1, #steps, 2 do
        local step = tonumber(steps[index])
        if step and step > from - rules.step and step <= rules.now then
            answers = answers + tonumber(steps[index + 1])
        end
    end
    return {owners = guard_owners(keys, from, digits(rules.now)), answers = answers}
end

-- Returns the same for a day, without owners from before a time, and with owners whose tokens have left quarantine since then.
local function guard_day(route, from, rules)
    local keys, answers = guard_keys(route), 0
    local first = guard_begin_of_day(rules)
    local steps = redis.call('HGETALL', keys.answers)
    for index = 1, #steps, 2 do
        local hour = tonumber(string.match(steps[index], '^h(%d+)$'))
        if hour and hour >= first then
            answers = answers + tonumber(steps[index + 1])
        end
    end
    return {owners = guard_owners(keys, math.max(from, first * GUARD_HOUR_MS - 1), '+inf'), answers = answers}
end

local function guard_is_much(owners, answers, percent)
    return owners * 100 > answers * percent
end

-- Stops the route with any configuration, also where it is stopped for some of them. Returns whether it was not stopped so before.
local function guard_stops(route)
    local paused = redis.call('HGET', route, 'paused')
    if paused and paused ~= 'configuration' and paused ~= 'credential' then
        return false
    end
    redis.call('HSET', route, 'paused', 'guard')
    redis.call('HDEL', route, 'pause_reason')
    return true
end

-- Stops the route and keeps its tokens in quarantine, if the owners of bad or dead ones are too many among the answers. Returns whether
-- they are, and whether the route is stopped by this call.
local function guard_trips(route, rules)
    local restarted = tonumber(redis.call('HGET', route, 'guard_restarted_at') or '0')
    if restarted > rules.now then
        restarted = 0
    end
    local set_back = tonumber(redis.call('HGET', guard_keys(route).answers, 'set_back_at') or '0')
    local windows = {}
    for _, length in ipairs({rules.window, math.max(rules.window, rules.delay)}) do
        windows[#windows + 1] = guard_counts(route, math.max(restarted, set_back, rules.now - length), rules)
    end
    windows[#windows + 1] = guard_day(route, restarted, rules)
    for _, window in ipairs(windows) do
        for _, word in ipairs({'bad', 'dead'}) do
            local owners, answers = window.owners[word], window.answers
            if owners.weight >= rules.least and guard_is_much(owners.count, answers, rules[word]) then
                local stopped = guard_stops(route)
                local begun = redis.call('HSETNX', route, 'quarantined_at', digits(rules.now)) == 1
                if begun then
                    redis.call('HSET', route, 'quarantined_for', digits(owners.count) .. '/' .. digits(answers) .. '/' .. word)
                end
                return true, stopped or begun
            end
        end
    end
    return false, false
end

-- Brings entries of a future time back to a time.
local function guard_bring_back(key, time, rules)
    local ahead = redis.call('ZRANGEBYSCORE', key, '(' .. digits(rules.now), '+inf', 'LIMIT', 0, GUARD_MOVES_MAX)
    for _, entry in ipairs(ahead) do
        redis.call('ZADD', key, digits(time), entry)
    end
end

-- Forgets owners that no window reaches any more. Owners of waiting tokens stay as long as these do.
local function guard_forget_owners(route, rules)
    local keys = guard_keys(route)
    local kept = math.max(GUARD_DAY_HOURS * GUARD_HOUR_MS, rules.window + rules.delay)
    local gone = rules.now - kept
    local oldest = redis.call('ZRANGE', keys.quarantine, 0, 0, 'WITHSCORES')[2]
    local bad_gone = math.min(gone, tonumber(oldest or gone))
    for _, prefix in ipairs({'', 'new_'}) do
        local bad, dead = keys[prefix .. 'bad_owners'], keys[prefix .. 'dead_owners']
        redis.call('ZREMRANGEBYSCORE', dead, '-inf', '(' .. digits(gone))
        redis.call('ZREMRANGEBYSCORE', bad, '-inf', '(' .. digits(bad_gone))
        redis.call('PEXPIRE', bad, digits(kept))
        redis.call('PEXPIRE', dead, digits(kept))
    end
end

-- Adds the owner of a token that was called bad or dead. An owner whose other tokens had been registered for longer stays with such owners.
-- Returns whether none of the owner's tokens was called so in the short window before.
local function guard_add_owner(route, word, owner, is_new, rules)
    local keys = guard_keys(route)
    local settled, new = keys[word .. '_owners'], keys['new_' .. word .. '_owners']
    local settled_at, new_at = redis.call('ZSCORE', settled, owner), redis.call('ZSCORE', new, owner)
    local key = settled
    if is_new and not settled_at then
        key = new
    else
        redis.call('ZREM', new, owner)
    end
    redis.call('ZADD', key, digits(rules.now), owner)
    if redis.call('ZCARD', key) > OWNERS_MAX then
        redis.call('ZPOPMIN', key)
    end
    return math.max(tonumber(settled_at or 0), tonumber(new_at or 0)) <= rules.now - rules.window
end

-- Adds answers, and forgets those that no window reaches any more. Those of a future step count in their hour alone, and those of a future hour
-- come back to the present one.
local function guard_add_answers(route, count, rules)
    local answers = guard_keys(route).answers
    local step, hour = rules.now - rules.now % rules.step, math.floor(rules.now / GUARD_HOUR_MS)
    redis.call('HINCRBY', answers, digits(step), digits(count))
    redis.call('HINCRBY', answers, 'h' .. digits(hour), digits(count))
    redis.call('PEXPIRE', answers, digits(math.max(GUARD_DAY_HOURS * GUARD_HOUR_MS, rules.window + rules.delay)))
    local oldest = rules.now - math.max(rules.window, rules.delay) - rules.step
    for _, field in ipairs(redis.call('HKEYS', answers)) do
        local at, of_hour = tonumber(field), tonumber(string.match(field, '^h(%d+)$'))
        if at and at > step or of_hour and of_hour > hour then
            redis.call('HSET', answers, 'set_back_at', digits(rules.now))
        end
        if of_hour and of_hour > hour then
            redis.call('HINCRBY', answers, 'h' .. digits(hour), redis.call('HGET', answers, field))
            redis.call('HDEL', answers, field)
        elseif at and (at > step or at < oldest) or of_hour and of_hour < guard_begin_of_day(rules) then
            redis.call('HDEL', answers, field)
        end
    end
end

-- Discards earlier answers, after an operator has looked at them. Owners of waiting tokens stay, because these are still compared with
-- later answers of the provider before they are deleted.
local function guard_restart(route, now)
    local keys = guard_keys(route)
    redis.call('HSET', route, 'guard_restarted_at', digits(now))
    redis.call('DEL', keys.answers, keys.dead_owners, keys.new_dead_owners)
    if redis.call('EXISTS', keys.quarantine) == 0 then
        redis.call('DEL', keys.bad_owners, keys.new_bad_owners)
    end
end
