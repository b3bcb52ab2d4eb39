-- Acknowledges entries and takes them out of their stream, those that are still this consumer's.
-- KEYS: 1 stream
-- ARGV: 1 group, 2 consumer, then entries
-- Returns: how many
redis.register_function{function_name = 'apus1_done', flags = {'allow-oom'}, callback = function(keys, args)
    local count = 0
    for index = 3, #args do
        if owns(keys[1], args[1], args[2], args[index]) then
            count = count + done(keys[1], args[1], args[index])
        end
    end
    return count
end}
