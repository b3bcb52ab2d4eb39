-- Tokens in quarantine: those that a provider called bad.

-- Adds tokens, and answers that judged a token. The same tokens again are not new, and then the answers are not counted either, so that a
-- batch that comes twice counts once.
-- KEYS: 1 {q}route:<route>
-- Returns: {'below' · 'quarantined' (the guard has stopped the route before) · 'tripped' (it stops it now), places of tokens for which there
--           was no room, from 0…}
register_function{
    name = 'apus2_quarantine_tokens',
    flags = {'allow-oom'},
    required = 4,
    run = function(
        keys,
        window_ms, -- the short window
        delay_ms, -- that tokens wait
        tokens_min, -- below which the guard does not stop the route
        percent_max, -- of the answers that tokens in quarantine may be
        tokens,
        answers, -- that judged a token, with these tokens among them
        other_answers, -- that judged a token, without tokens to add; they come once
        at_ms -- absent: this server's time
    )
        tokens = tokens or none
        answers = answers or 0
        other_answers = other_answers or 0
        local route, rules = keys[1], guard_rules(window_ms, delay_ms, tokens_min, percent_max, at_ms)
        local quarantine = guard_keys(route)
        local known, added, answer = redis.call('ZCARD', quarantine), 0, {'below'}
        for index, token in ipairs(tokens) do
            if not redis.call('ZSCORE', quarantine, token) then
                if known < QUARANTINED_TOKENS_MAX then
                    redis.call('ZADD', quarantine, digits(rules.now), token)
                    known, added = known + 1, added + 1
                else
                    answer[#answer + 1] = index - 1
                end
            end
        end
        answers = other_answers + (added > 0 and answers or 0)
        if answers > 0 then
            guard_add_answers(route, answers, added, rules)
        end
        local trips, is_news
        if added > 0 then
            trips, is_news = guard_trips(route, rules)
        end
        if redis.call('HGET', route, 'quarantined_at') then
            answer[1] = trips and is_news and 'tripped' or 'quarantined'
        end
        return answer
    end,
}

local WRONG_ENVIRONMENT = '21' -- the reason of tokens that are moved instead

-- Returns tokens that have waited long enough, while the guard does not object: to be deleted, and then removed from quarantine. While they
-- are too many among the day's answers, though too few to stop the route, only those that are not to be deleted are among them.
-- KEYS: 1 {q}route:<route>
-- Returns: {'below', tokens…} · {'quarantined'} · {'tripped'} (as in apus2_quarantine_tokens)
register_function{
    name = 'apus2_due_quarantined_tokens',
    flags = {'allow-oom'},
    required = 5,
    run = function(
        keys,
        limit,
        window_ms, -- as in apus2_quarantine_tokens, like the next four
        delay_ms,
        tokens_min,
        percent_max,
        at_ms
    )
        local route, rules = keys[1], guard_rules(window_ms, delay_ms, tokens_min, percent_max, at_ms)
        local quarantine = guard_keys(route)
        local ahead = redis.call('ZRANGEBYSCORE', quarantine, '(' .. digits(rules.now), '+inf', 'LIMIT', 0, limit)
        for _, token in ipairs(ahead) do
            redis.call('ZADD', quarantine, digits(rules.now), token)
        end
        if redis.call('HGET', route, 'quarantined_at') then
            return {'quarantined'}
        end
        local due = redis.call('ZRANGEBYSCORE', quarantine, '-inf', digits(rules.now - rules.delay), 'LIMIT', 0, limit)
        if #due > 0 and guard_trips(route, rules) then
            return {'tripped'}
        end
        -- Without answers beside them no token is due: those that wait are all that is known.
        local tokens, answers = guard_day(route, rules)
        tokens = math.max(tokens, redis.call('ZCARD', quarantine))
        if not guard_is_much(tokens, math.max(answers, tokens), rules) then
            return {'below', unpack(due)}
        end
        -- A token that belongs to the other environment can be moved back in the same way, should the mistake be ours.
        local harmless = {}
        for _, token in ipairs(due) do
            if string.match(token, ':' .. WRONG_ENVIRONMENT .. '$') then
                harmless[#harmless + 1] = token
            end
        end
        return {'below', unpack(harmless)}
    end,
}

-- Removes tokens from quarantine: deleted, restored, or registered again.
-- KEYS: 1 {q}route:<route>
-- Returns: how many are left
register_function{
    name = 'apus2_remove_quarantined_tokens',
    flags = {'allow-oom'},
    required = 1,
    run = function(keys, tokens)
        local quarantine = guard_keys(keys[1])
        for _, token in ipairs(tokens) do
            redis.call('ZREM', quarantine, token)
        end
        return redis.call('ZCARD', quarantine)
    end,
}

-- Ends the quarantine of a route that has no tokens left there; earlier answers count no more.
-- KEYS: 1 {q}route:<route>
-- Returns: how many tokens are left; if there are any, nothing has changed
register_function{
    name = 'apus2_end_quarantine',
    flags = {'allow-oom'},
    run = function(
        keys,
        resumes, -- lets the route go on if it was the guard that stopped it, else it is paused
        at_ms -- absent: this server's time
    )
        local route = keys[1]
        local left = redis.call('ZCARD', (guard_keys(route)))
        if left > 0 then
            return left
        end
        redis.call('HDEL', route, 'quarantined_at', 'quarantined_for')
        if not resumes then
            redis.call('HSET', route, 'paused', '1')
            redis.call('HDEL', route, 'pause_reason')
        elseif redis.call('HGET', route, 'paused') == 'guard' then
            redis.call('HDEL', route, 'paused')
        end
        guard_restart(route, at_ms or now_ms())
        return 0
    end,
}

-- Reads the state of a route's quarantine.
-- KEYS: 1 {q}route:<route>
-- Returns: {tokens that wait, since when the guard has stopped the route in ms or '', "<tokens>/<answers>" that led to it or '',
--           the provider's word for what it rejects of our configuration, if the route is paused for that, else for a third-party
--           authentication error, or ''}
register_function{
    name = 'apus2_quarantine_state',
    flags = {'no-writes'},
    run = function(keys)
        local known = redis.call('HMGET', keys[1], 'quarantined_at', 'quarantined_for', 'paused', 'pause_reason',
            'third_party_auth_error')
        local is_rejected = known[3] == 'configuration' or known[3] == 'credential'
        return {redis.call('ZCARD', (guard_keys(keys[1]))), known[1] or '', known[2] or '',
            is_rejected and known[4] or known[5] or ''}
    end,
}
