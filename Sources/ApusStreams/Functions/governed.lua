-- How a route stands.
-- KEYS: 1 {q}route:<route>
-- ARGV: none
-- Returns: {1 paused by an operator, 2 by the guard, 3 for what the provider calls wrong with our set-up, 4 with our credential, or 0,
--           rate per second of an operator or '', rate per second of the configuration or '', ms until it may go on, level in millionths,
--           the provider's word that it was paused for or '', what its own partner calls wrong or '',
--           the set-ups that were called wrong, each with a comma behind it}
redis.register_function{function_name = 'apus1_governed', flags = {'no-writes'}, callback = function(keys)
    local known = redis.call('HMGET', keys[1], 'paused', 'rate', 'base', 'lease', 'paused_for', 'partner_fault', 'refused')
    local time = redis.call('TIME')
    local state = known[4] and cmsgpack.unpack(known[4]) or {level = 1}
    local cut = cut_left(tonumber(time[1]) * 1000000 + tonumber(time[2]), state)
    local paused = ({guard = 2, fault = 3, credential = 4})[known[1] or ''] or known[1] and 1 or 0
    return {paused, known[2] or '', known[3] or '', math.ceil(cut / 1000), math.floor(state.level * 1000000), known[5] or '', known[6] or '', known[7] or ''}
end}
