-- Keeps entries that are still this consumer's, or hands them back.
-- KEYS: 1 stream
-- ARGV: 1 group, 2 consumer, 3 idle ms to pretend (0 keeps them; more than a lease gives them to whoever asks), then entries
-- Returns: how many still were this consumer's
redis.register_function{function_name = 'apus1_renew', flags = {'allow-oom'}, callback = function(keys, args)
    local count = 0
    for index = 4, #args do
        if owns(keys[1], args[1], args[2], args[index]) then
            redis.call('XCLAIM', keys[1], args[1], args[2], 0, args[index], 'IDLE', args[3], 'JUSTID')
            count = count + 1
        end
    end
    return count
end}
