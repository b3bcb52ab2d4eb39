-- Notes what is known of a broadcast channel.
-- KEYS: 1 {q}channels:<route>
-- ARGV: 1 the channel's id, 2 '0' (it keeps no message) · '1' (it keeps the latest) · 'gone', 3 the time in ms ('' this server's)
-- Returns: 1, or 0: as many that are there are known as are kept
redis.register_function{function_name = 'apus1_channel_note', flags = {'allow-oom'}, callback = function(keys, args)
    local channels, id, word = keys[1], args[1], args[2]
    local gone = channels_gone_key(channels)
    local now = tonumber(args[3]) or now_ms()
    if word == 'gone' then
        redis.call('HSET', channels, id, 'gone:' .. digits(now))
        redis.call('ZADD', gone, digits(now), id)
        forget_gone_channels(channels, gone, now)
        return 1
    end
    redis.call('ZREM', gone, id)
    local known = redis.call('HGET', channels, id)
    if known ~= '0' and known ~= '1' then
        redis.call('HDEL', channels, id)
        if redis.call('HLEN', channels) - redis.call('ZCARD', gone) >= CHANNELS_MAX then
            return 0
        end
    end
    redis.call('HSET', channels, id, word)
    return 1
end}
