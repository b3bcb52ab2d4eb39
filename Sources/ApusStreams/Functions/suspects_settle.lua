-- Strikes suspects off the list: deleted, restored, or registered again.
-- KEYS: 1 {q}route:<route>
-- ARGV: the suspects
-- Returns: how many are left
redis.register_function{function_name = 'apus1_suspects_settle', flags = {'allow-oom'}, callback = function(keys, args)
    local suspects = guard_keys(keys[1])
    for _, suspect in ipairs(args) do
        redis.call('ZREM', suspects, suspect)
    end
    return redis.call('ZCARD', suspects)
end}
