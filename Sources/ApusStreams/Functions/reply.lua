-- Writes a receipt into a publisher's own stream, which keeps the last ones.
-- KEYS: 1 stream
-- ARGV: 1 entries kept, roughly, 2 SendReceipt
-- Returns: 1
redis.register_function{function_name = 'apus1_reply', flags = {'allow-oom'}, callback = function(keys, args)
    redis.call('XADD', keys[1], 'MAXLEN', '~', args[1], '*', 'm', args[2])
    return 1
end}
