-- One step of a plan: appends units and advances the cursor together, or does nothing.
-- KEYS: 1 {q}plan, 2 {q}send:<id>
-- ARGV: 1 group, 2 consumer, 3 entry, 4 cursor expected, 5 cursor to come, 6 OutcomeBatch to write ('' none), 7 '1' when the plan
--       is complete, 8 recipients planned in this step beside those of units, 9 number of units, then per unit: name of its
--       stream without the tag, recipients, WorkUnit
-- Returns: {'ok'} · {'lost'} (another owns the entry) · {'moved', cursor} · {'full', stream} · {'paused'} · {'cancelled'}
redis.register_function{function_name = 'apus1_fanstep', callback = function(keys, args)
    local plan, state = keys[1], keys[2]
    local group, consumer, entry = args[1], args[2], args[3]
    local tag = tag_of(plan)
    if not owns(plan, group, consumer, entry) then
        return {'lost'}
    end
    local now = redis.call('HMGET', state, 'state', 'cursor')
    if now[1] ~= 'running' then
        renew(plan, group, consumer, entry, true)
        return {now[1] == 'paused' and 'paused' or 'cancelled'}
    end
    if now[2] ~= args[4] then
        return {'moved', now[2]}
    end
    local units = tonumber(args[9])
    for index = 0, units - 1 do
        local stream = args[10 + index * 3]
        if redis.call('XLEN', tag .. stream) >= UNITS_WAITING_MAX then
            renew(plan, group, consumer, entry, true)
            return {'full', stream}
        end
    end
    local planned = tonumber(args[8])
    for index = 0, units - 1 do
        redis.call('XADD', tag .. args[10 + index * 3], '*', 'm', args[12 + index * 3])
        planned = planned + tonumber(args[11 + index * 3])
    end
    redis.call('HINCRBY', state, 'planned', digits(planned))
    redis.call('HSET', state, 'cursor', args[5])
    if args[7] == '1' then
        redis.call('HSET', state, 'planning', '0')
    end
    if args[6] ~= '' then
        redis.call('XADD', tag .. 'outcomes', '*', 'm', args[6])
    end
    if args[7] == '1' then
        done(plan, group, entry)
    else
        renew(plan, group, consumer, entry, true)
    end
    return {'ok'}
end}
