-- Notes answers that judged a token, with the suspects among them. The same suspects again are none, and then the answers are not
-- counted either, so that a batch that comes twice counts once.
-- KEYS: 1 {q}route:<route>
-- ARGV: 1 answers without suspects, that come once, 2 answers with these suspects, 3 short window in ms, 4 ms that suspects wait,
--       5 suspects at least, 6 percent at most, 7 the time in ms ('' this server's), 8… suspects
-- Returns: {'below' · 'quarantined' · 'tripped' (in quarantine from now on, or stopped once more), places of suspects for whom there was
--           no room, from 0…}
redis.register_function{function_name = 'apus1_suspect', flags = {'allow-oom'}, callback = function(keys, args)
    local route, rules = keys[1], guard_rules(args, 3)
    local suspects = guard_keys(route)
    local known, added, answer = redis.call('ZCARD', suspects), 0, {'below'}
    for index = 8, #args do
        if not redis.call('ZSCORE', suspects, args[index]) then
            if known < SUSPECTS_MAX then
                redis.call('ZADD', suspects, digits(rules.now), args[index])
                known, added = known + 1, added + 1
            else
                answer[#answer + 1] = index - 8
            end
        end
    end
    local heard = tonumber(args[1]) + (added > 0 and tonumber(args[2]) or 0)
    if heard > 0 then
        guard_note_answers(route, heard, added, rules)
    end
    local trips, is_news
    if added > 0 then
        trips, is_news = guard_trips(route, rules)
    end
    if redis.call('HGET', route, 'quarantined_at') then
        answer[1] = trips and is_news and 'tripped' or 'quarantined'
    end
    return answer
end}
