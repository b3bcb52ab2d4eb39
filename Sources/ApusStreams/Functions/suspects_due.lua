-- Suspects who have waited long enough, while the guard has nothing against it: to be deleted, and then settled. While they are too
-- many among the day's answers, though too few to stop the route, only those who are not to be deleted are among them.
-- KEYS: 1 {q}route:<route>
-- ARGV: 1 how many at most, 2 short window in ms, 3 ms that suspects wait, 4 suspects at least, 5 percent at most,
--       6 the time in ms ('' this server's)
-- Returns: {'below', suspects…} · {'quarantined'} · {'tripped'} (as in apus1_suspect)
local WRONG_ENVIRONMENT = '21' -- the reason of those who are moved instead

redis.register_function{function_name = 'apus1_suspects_due', flags = {'allow-oom'}, callback = function(keys, args)
    local route, rules = keys[1], guard_rules(args, 2)
    local suspects = guard_keys(route)
    for _, ahead in ipairs(redis.call('ZRANGEBYSCORE', suspects, '(' .. digits(rules.now), '+inf', 'LIMIT', 0, args[1])) do
        redis.call('ZADD', suspects, digits(rules.now), ahead)
    end
    if redis.call('HGET', route, 'quarantined_at') then
        return {'quarantined'}
    end
    local due = redis.call('ZRANGEBYSCORE', suspects, '-inf', digits(rules.now - rules.delay), 'LIMIT', 0, args[1])
    if #due > 0 and guard_trips(route, rules) then
        return {'tripped'}
    end
    -- Without answers beside them nobody is cleared: those who wait are what is known.
    local suspected, answered = guard_day(route, rules)
    suspected = math.max(suspected, redis.call('ZCARD', suspects))
    if not guard_is_much(suspected, math.max(answered, suspected), rules) then
        return {'below', unpack(due)}
    end
    -- Who is taken in the other environment can go back the same way, should the mistake be ours.
    local harmless = {}
    for _, suspect in ipairs(due) do
        if string.match(suspect, ':' .. WRONG_ENVIRONMENT .. '$') then
            harmless[#harmless + 1] = suspect
        end
    end
    return {'below', unpack(harmless)}
end}
