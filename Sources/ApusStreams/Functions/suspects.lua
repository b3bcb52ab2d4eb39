-- How the guard of a route stands.
-- KEYS: 1 {q}route:<route>
-- ARGV: none
-- Returns: {suspects who wait, since when it is in quarantine in ms or '', "<suspects>/<answers>" that led to it or '',
--           the word for what is wrong with our set-up, if the route is paused for that or the provider's partner says so, or ''}
redis.register_function{function_name = 'apus1_suspects', flags = {'no-writes'}, callback = function(keys)
    local known = redis.call('HMGET', keys[1], 'quarantined_at', 'quarantined_for', 'paused', 'paused_for', 'partner_fault')
    local is_fault = known[3] == 'fault' or known[3] == 'credential'
    return {redis.call('ZCARD', (guard_keys(keys[1]))), known[1] or '', known[2] or '', is_fault and known[4] or known[5] or ''}
end}
