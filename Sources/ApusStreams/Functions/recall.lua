-- Moves what a send has waiting for its time (retries, scheduled plans) to its streams now, a page of all that waits at a time.
-- KEYS: 1 {q}due
-- ARGV: 1 send id, 2 cursor ('0' to begin), 3 entries to look at, roughly
-- Returns: {cursor to go on from ('0': that was all), moved}
redis.register_function{function_name = 'apus1_recall', flags = {'allow-oom'}, callback = function(keys, args)
    local due = keys[1]
    local found = redis.call('ZSCAN', due, args[2], 'MATCH', args[1] .. '/*', 'COUNT', args[3])
    local moved = 0
    for index = 1, #found[2], 2 do
        moved = moved + (move_due(due, found[2][index], '') and 1 or 0)
    end
    return {found[1], moved}
end}
