-- What is known of the broadcast channels of a route: {q}channels:<route> has for each of them '0' (it keeps no message), '1' (it keeps
-- the latest) or 'gone:<since when in ms>'; {q}channels_gone:<route> has those that are gone, by the time since when.
local CHANNELS_MAX = 10000 -- of a route, that are there: Apple allows as many
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

-- Forgets channels that have been gone for long, and the first of those that are too many.
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
