-- These functions keep tokens in quarantine: those that a provider called bad, and those that it called dead while the guard has stopped
-- the route.

-- Adds tokens that a provider called bad, and answers about tokens. The same tokens again are not new, and then their answers do not count,
-- so that a batch counts once although it is repeated. Tokens that the provider called dead are counted as well, and added only while the
-- guard has stopped the route; else the caller is to delete them, and nothing but their owners tells of a repetition: after the deletion
-- nothing does.
-- KEYS: 1 {q}route:<route>
-- Returns: {'below' · 'quarantined' (the guard has stopped the route before) · 'tripped' (it stops it now), places of tokens for which there
--           was no room, from 0, dead ones after the bad ones…}
register_function{
    name = 'apus2_quarantine_tokens',
    flags = {'allow-oom'},
    required = 5,
    run = function(
        keys,
        window_ms, -- the short window
        delay_ms, -- that tokens wait
        tokens_min, -- owners of such tokens below which the guard does not stop the route; those of new tokens count less
        percent_max, -- of the answers that owners of bad tokens may be
        dead_percent_max, -- of the answers that owners of dead tokens may be
        tokens, -- that were called bad
        owners, -- whose they are, one for each
        dead_tokens, -- that were called dead
        dead_owners,
        answers, -- that accept or reject a token, those about the tokens above included
        other_answers, -- that accept or reject a token, without tokens to add; they count each time, so such a call is not repeated
        at_ms, -- absent: this server's time
        new, -- 1 for each token called bad that had just been registered, 0 for others; absent: none had
        dead_new -- the same for those called dead
    )
        tokens = tokens or none
        owners = owners or none
        dead_tokens = dead_tokens or none
        dead_owners = dead_owners or none
        new = new or none
        dead_new = dead_new or none
        answers = answers or 0
        other_answers = other_answers or 0
        if #tokens ~= #owners or #dead_tokens ~= #dead_owners then
            return redis.error_reply('ERR apus2_quarantine_tokens: a token without an owner')
        end
        local route, rules = keys[1], guard_rules(window_ms, delay_ms, tokens_min, percent_max, dead_percent_max, at_ms)
        local quarantine = guard_keys(route).quarantine
        local known, news, answer = redis.call('ZCARD', quarantine), 0, {'below'}
        local function add(token, place)
            if redis.call('ZSCORE', quarantine, token) then
                return false
            elseif known >= QUARANTINED_TOKENS_MAX then
                answer[#answer + 1] = place
                return false
            end
            redis.call('ZADD', quarantine, digits(rules.now), token)
            known = known + 1
            return true
        end
        for index, token in ipairs(tokens) do
            if add(token, index - 1) then
                guard_add_owner(route, 'bad', owners[index], new[index] == 1, rules)
                news = news + 1
            end
        end
        for index, token in ipairs(dead_tokens) do
            if not redis.call('ZSCORE', quarantine, token)
                and guard_add_owner(route, 'dead', dead_owners[index], dead_new[index] == 1, rules) then
                news = news + 1
            end
        end
        answers = other_answers + (news > 0 and answers or 0)
        if answers > 0 then
            guard_add_answers(route, answers, rules)
        end
        local trips, is_news
        if news > 0 then
            guard_forget_owners(route, rules)
            trips, is_news = guard_trips(route, rules)
        end
        if redis.call('HGET', route, 'quarantined_at') then
            answer[1] = trips and is_news and 'tripped' or 'quarantined'
            for index, token in ipairs(dead_tokens) do
                add(token, #tokens + index - 1)
            end
        end
        return answer
    end,
}

local WRONG_ENVIRONMENT = '21' -- the reason of tokens that are moved instead
local DUE_PASSED_MAX = 5000 -- tokens among which those are searched that need not wait
local DUE_PAGE = 1000

-- Returns tokens that have waited long enough, while the guard does not object: to be deleted, and then removed from quarantine. While
-- their owners are too many of the day's answers, though too few to stop the route, only the tokens that are moved or tried again instead of
-- deleted are returned, and those that have waited for longer than a day of which the share is small.
-- KEYS: 1 {q}route:<route>
-- Returns: {'below', tokens…} · {'quarantined'} · {'tripped'} (as in apus2_quarantine_tokens)
register_function{
    name = 'apus2_due_quarantined_tokens',
    flags = {'allow-oom'},
    required = 6,
    run = function(
        keys,
        limit,
        window_ms, -- as in apus2_quarantine_tokens, like the next five
        delay_ms,
        tokens_min,
        percent_max,
        dead_percent_max,
        at_ms,
        kept_reasons -- the reasons of tokens that are tried again instead of deleted; absent: none
    )
        kept_reasons = kept_reasons or none
        local route, rules = keys[1], guard_rules(window_ms, delay_ms, tokens_min, percent_max, dead_percent_max, at_ms)
        local guarded = guard_keys(route)
        local quarantine, bad, new_bad = guarded.quarantine, guarded.bad_owners, guarded.new_bad_owners
        guard_bring_back(quarantine, rules.now, rules)
        for _, key in ipairs({bad, guarded.dead_owners, new_bad, guarded.new_dead_owners}) do
            guard_bring_back(key, rules.now - math.max(rules.window, rules.delay), rules)
        end
        guard_forget_owners(route, rules)
        if redis.call('HGET', route, 'quarantined_at') then
            return {'quarantined'}
        end
        local due = redis.call('ZRANGEBYSCORE', quarantine, '-inf', digits(rules.now - rules.delay), 'LIMIT', 0, limit)
        if #due > 0 and guard_trips(route, rules) then
            return {'tripped'}
        end
        -- Without answers to compare with, no token is due.
        local day = guard_day(route, 0, rules)
        local owners, answers = day.owners.bad.count, day.answers
        local is_calm = answers > 0 and not guard_is_much(owners, answers, rules.bad)
        local known = redis.call('ZCARD', bad) + redis.call('ZCARD', new_bad)
        -- The owners are forgotten because nobody looked for so long: then each token counts as an owner.
        owners = math.max(owners, known > 0 and known or redis.call('ZCARD', quarantine))
        if not guard_is_much(owners, math.max(answers, owners), rules.bad) then
            return {'below', unpack(due)}
        end
        -- A token that belongs to the other environment can be moved back in the same way, should the mistake be ours.
        local is_harmless, harmless = {[WRONG_ENVIRONMENT] = true}, {}
        for _, reason in ipairs(kept_reasons) do
            is_harmless[reason] = true
        end
        local before = rules.now - rules.delay - GUARD_DAY_HOURS * GUARD_HOUR_MS
        -- The ones that must wait may be many, and stand first.
        for from = 0, DUE_PASSED_MAX - 1, DUE_PAGE do
            local page = redis.call('ZRANGEBYSCORE', quarantine, '-inf', digits(rules.now - rules.delay), 'WITHSCORES', 'LIMIT',
                from, DUE_PAGE)
            for index = 1, #page, 2 do
                local is_old = is_calm and tonumber(page[index + 1]) <= before
                if #harmless < limit and (is_old or is_harmless[string.match(page[index], ':(%d+)$')]) then
                    harmless[#harmless + 1] = page[index]
                end
            end
            if #harmless >= limit or #page < 2 * DUE_PAGE then
                break
            end
        end
        return {'below', unpack(harmless)}
    end,
}

-- Removes tokens that were deleted, restored, or registered again from quarantine. Those that could not be settled wait once more.
-- KEYS: 1 {q}route:<route>
-- Returns: how many are left
register_function{
    name = 'apus2_remove_quarantined_tokens',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        tokens,
        put_off,
        at_ms -- absent: this server's time
    )
        put_off = put_off or none
        local quarantine = guard_keys(keys[1]).quarantine
        for _, token in ipairs(tokens) do
            redis.call('ZREM', quarantine, token)
        end
        for _, token in ipairs(put_off) do
            redis.call('ZADD', quarantine, 'XX', digits(at_ms or now_ms()), token)
        end
        return redis.call('ZCARD', quarantine)
    end,
}

-- Ends the quarantine of a route that has no tokens left there; earlier answers do not count any more.
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
        local left = redis.call('ZCARD', guard_keys(route).quarantine)
        if left > 0 then
            return left
        end
        redis.call('HDEL', route, 'quarantined_at', 'quarantined_for')
        if not resumes then
            redis.call('HSET', route, 'paused', '1')
            redis.call('HDEL', route, 'pause_reason')
        elseif redis.call('HGET', route, 'paused') == 'guard' then
            redis.call('HDEL', route, 'paused', 'rejected_configurations')
        end
        guard_restart(route, at_ms or now_ms())
        return 0
    end,
}

local function subroute_faults_text(route)
    local faults = subroute_faults(route, now_ms())
    local texts = {}
    for _, name in ipairs(faults.names) do
        texts[#texts + 1] = name .. ': ' .. faults.words[name]
    end
    return table.concat(texts, ', ')
end

-- Reads the state of a route's quarantine.
-- KEYS: 1 {q}route:<route>
-- Returns: {tokens that wait, since when the guard has stopped the route in ms or '', "<owners>/<answers>/<bad · dead>" that led to it or '',
--           the provider's word for what it rejects of our configuration, if the route is paused for that, else for a third-party
--           authentication error, else "<subroute>: <word>" of the subroutes that it refuses, or ''}
register_function{
    name = 'apus2_quarantine_state',
    flags = {'no-writes'},
    run = function(keys)
        local known = redis.call('HMGET', keys[1], 'quarantined_at', 'quarantined_for', 'paused', 'pause_reason',
            'third_party_auth_error')
        local is_rejected = known[3] == 'configuration' or known[3] == 'credential'
        return {redis.call('ZCARD', guard_keys(keys[1]).quarantine), known[1] or '', known[2] or '',
            is_rejected and known[4] or known[5] or subroute_faults_text(keys[1])}
    end,
}
