-- Gives a route its number, the same one ever after.
-- KEYS: 1 apus:routes
-- ARGV: 1 "<app>/<provider>/<environment>"
-- Returns: the number, from 1
redis.register_function{function_name = 'apus1_route', flags = {'allow-oom'}, callback = function(keys, args)
    local number = redis.call('HGET', keys[1], args[1])
    if number then
        return tonumber(number)
    end
    number = redis.call('HINCRBY', keys[1], '#', 1)
    redis.call('HSET', keys[1], args[1], number)
    return number
end}
