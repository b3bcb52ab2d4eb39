-- Reads which devices users may have; the records decide.
--
-- KEYS[1]  `{t}<app>:meta`, t from the users
-- ARGV     digests of users, 8 bytes each, at most 256
-- returns  one string for each: its devices, 10 bytes each (partition 2, digest 8)
local function user_devices(keys, args)
    if #args > 256 then return redis.error_reply('ERR apus1_user_devices: too many digests') end
    local answer = {}
    for i, digest in ipairs(args) do
        if #digest ~= 8 then return redis.error_reply('ERR apus1_user_devices: malformed digest') end
        answer[i] = redis.call('HGET', users.place(keys[1], digest)) or ''
    end
    return answer
end

redis.register_function { function_name = 'apus1_user_devices', callback = user_devices, flags = { 'no-writes' } }
