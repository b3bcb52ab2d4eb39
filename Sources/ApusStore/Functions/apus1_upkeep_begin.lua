-- Whether nobody has looked after an app's part of a partition within that time: then it is the caller's to do. Runs at a full Redis too:
-- the janitor makes room.
--
-- KEYS[1]  what remembers it
-- ARGV[1]  seconds
-- returns  1; 0 when somebody has
local function upkeep_begin(keys, args)
    return redis.call('SET', keys[1], '1', 'NX', 'EX', args[1]) and 1 or 0
end

redis.register_function { function_name = 'apus1_upkeep_begin', callback = upkeep_begin, flags = { 'allow-oom' } }
