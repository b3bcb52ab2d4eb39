-- Moves entries that were put aside back to the ends of their streams, journals and all, unless the send is still paused.
-- KEYS: 1 {q}send:<id>
-- ARGV: 1 how many at most
-- Returns: how many still wait · -1 (the send is paused; nothing was moved)
redis.register_function{function_name = 'apus1_release', flags = {'allow-oom'}, callback = function(keys, args)
    local tag, send = tag_of(keys[1]), send_of(keys[1])
    if is_paused(tag, send) then
        return -1
    end
    return release(tag, send, tonumber(args[1]))
end}
