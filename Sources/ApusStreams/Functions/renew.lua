-- Keeps entries that are still this consumer's for another lease, or hands them back; and says how many deliveries they count: fewer for
-- what is handed back in good order or must not answer for a neighbour's end, one more for a suspect that begins.
-- KEYS: streams of one shard
-- ARGV: 1 group, 2 consumer, 3 idle ms to pretend (0 keeps them; more than a lease gives them to whoever asks), 4 '1': the deliveries are meant
--       exactly, else at most, then per stream: number of entries, then per entry: id, deliveries ('-1' as they are)
-- Returns: how many still were this consumer's
redis.register_function{function_name = 'apus1_renew', flags = {'allow-oom'}, callback = function(keys, args)
    local group, consumer, idle = args[1], args[2], args[3]
    local at, count = 5, 0
    for _, stream in ipairs(keys) do
        local entries = tonumber(args[at])
        for index = 0, entries - 1 do
            local entry, deliveries = args[at + 1 + index * 2], tonumber(args[at + 2 + index * 2])
            local pending = redis.pcall('XPENDING', stream, group, entry, entry, 1, consumer)
            if not pending.err and #pending == 1 then
                if deliveries >= 0 and (args[4] == '1' or pending[1][4] > deliveries) then
                    redis.call('XCLAIM', stream, group, consumer, 0, entry, 'IDLE', idle, 'RETRYCOUNT',
                        digits(deliveries), 'JUSTID')
                else
                    redis.call('XCLAIM', stream, group, consumer, 0, entry, 'IDLE', idle, 'JUSTID')
                end
                count = count + 1
            end
        end
        at = at + 1 + entries * 2
    end
    return count
end}
