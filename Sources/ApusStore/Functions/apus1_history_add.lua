-- Appends events to a device's history, each once: an event that stands there already is the same one, told again.
--
-- KEYS[1]  {t}<app>:meta
-- ARGV[1]  digest of the device id, 8 bytes
-- ARGV[2]  milliseconds to keep the history after its last event
-- ARGV[3…] events, any bytes, in their order
-- returns  how many were new
local function history_add(keys, args)
    local digest, keep = args[1], tonumber(args[2])
    if #digest ~= 8 or not keep or keep < 1 then
        return redis.error_reply('ERR apus1_history_add: malformed arguments')
    end
    local key = history.key(keys[1], digest)
    local added = 0
    for i = 3, #args do
        if history.append(key, args[i]) then added = added + 1 end
    end
    if added > 0 then redis.call('PEXPIRE', key, args[2]) end
    return added
end

redis.register_function('apus1_history_add', history_add)
