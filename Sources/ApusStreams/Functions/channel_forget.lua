-- Forgets what is known of broadcast channels.
-- KEYS: 1 {q}channels:<route>
-- ARGV: their ids
-- Returns: how many are left, those that are gone among them
redis.register_function{function_name = 'apus1_channel_forget', flags = {'allow-oom'}, callback = function(keys, args)
    local channels = keys[1]
    local gone = channels_gone_key(channels)
    for _, id in ipairs(args) do
        forget_channel(channels, gone, id)
    end
    return redis.call('HLEN', channels)
end}
