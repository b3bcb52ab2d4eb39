-- The known broadcast channels of a route lie in {q}channels:<route>: for each '0' (it keeps no message), '1' (it keeps the latest) or
-- 'gone:<since when in ms>'. {q}channels_gone:<route> has the channels that are gone, by the time since when.
local CHANNELS_MAX = 10000 -- of a route, that are there: the provider allows as many
local CHANNELS_GONE_MAX = 10000 -- of a route, that are gone
local CHANNEL_GONE_MEMORY_MS = 24 * 3600 * 1000
local CHANNELS_FORGOTTEN_PER_CALL_MAX = 100

local function channels_gone_key(channels)
    return tag_of(channels) .. 'channels_gone:' .. string.match(channels, ':([^:]*)$')
end

local function forget_channel(channels, gone, id)
    redis.call('HDEL', channels, id)
    redis.call('ZREM', gone, id)
end

-- Forgets channels that have been gone for long, and the oldest while there are too many.
local function forget_gone_channels(channels, gone, now)
    local excess = redis.call('ZCARD', gone) - CHANNELS_GONE_MAX
    local first = redis.call('ZRANGE', gone, 0, CHANNELS_FORGOTTEN_PER_CALL_MAX - 1, 'WITHSCORES')
    for index = 1, #first, 2 do
        if excess <= 0 and tonumber(first[index + 1]) + CHANNEL_GONE_MEMORY_MS > now then
            break
        end
        forget_channel(channels, gone, first[index])
        excess = excess - 1
    end
end

-- Records the state of a broadcast channel.
-- KEYS: 1 {q}channels:<route>
-- Returns: 1, or 0 when there is no room for another existing channel
register_function{
    name = 'apus2_record_channel',
    flags = {'allow-oom'},
    required = 2,
    run = function(
        keys,
        channel, -- id
        state, -- '0' (it keeps no message) · '1' (it keeps the latest) · 'gone'
        at_ms -- absent: this server's time
    )
        local channels, id = keys[1], channel
        local gone = channels_gone_key(channels)
        local now = at_ms or now_ms()
        if state == 'gone' then
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
        redis.call('HSET', channels, id, state)
        return 1
    end,
}

-- Forgets the records of broadcast channels.
-- KEYS: 1 {q}channels:<route>
-- Returns: how many records are left, with those of channels that are gone
register_function{
    name = 'apus2_forget_channels',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        channels -- ids
    )
        local gone = channels_gone_key(keys[1])
        for _, id in ipairs(channels) do
            forget_channel(keys[1], gone, id)
        end
        return redis.call('HLEN', keys[1])
    end,
}
