-- One step of a route's plan: appends units and advances the cursor together, or does nothing. A plan that meets a paused send is put
-- aside, one that meets a cancelled send ends there.
-- KEYS: 1 {q}plan:<route>, 2 {q}send:<id>
-- ARGV: 1 group, 2 consumer, 3 entry, 4 cursor expected, 5 cursor to come, 6 OutcomeBatch to write ('' none), 7 how the plan
--       stands: '' more to find · 'complete' · 'expired' (nobody more is looked for), 8 recipients planned in this step beside those of
--       units, 9 OutcomeBatch without counts that tells of the end of a cancelled plan, 10 name of the units' stream without the tag,
--       11 number of units, then per unit: recipients, WorkUnit, the id that it had when the call is repeated ('' else)
-- Returns: {'ok', ids of the units} · {'lost'} (another owns the entry) · {'moved', cursor} · {'full'} ·
--          {'paced'} (enough waits of this send, which has a rate of its own, or of all that have) · {'paused'} · {'cancelled'}

-- How many units of sends with rates of their own wait in a stream: their ids, in a set beside it, as far as they are there.
local function paced_waiting(work, paced)
    local count = 0
    for _, id in ipairs(redis.call('SMEMBERS', paced)) do
        if #redis.call('XRANGE', work, id, id) > 0 then
            count = count + 1
        else
            redis.call('SREM', paced, id)
        end
    end
    return count
end

local PACED_KEPT_MS = 3600 * 1000

redis.register_function{function_name = 'apus1_fanstep', flags = {'allow-oom'}, callback = function(keys, args)
    local plan, state = keys[1], keys[2]
    local group, consumer, entry = args[1], args[2], args[3]
    local tag, route = tag_of(plan), string.match(plan, ':(%d+)$')
    if not owns(plan, group, consumer, entry) then
        return {'lost'}
    end
    local now = redis.call('HMGET', state, 'state', 'cursor:' .. route, 'rate', 'ahead:' .. route)
    if now[1] == 'paused' then
        put_aside(plan, group, entry, send_of(state), '')
        return {'paused'}
    end
    if now[1] ~= 'running' then
        if now[1] then
            redis.call('HINCRBY', state, 'planning', -1)
            redis.call('XADD', tag .. 'outcomes', '*', 'm', args[9])
        end
        done(plan, group, entry)
        return {'cancelled'}
    end
    if now[2] ~= args[4] then
        return {'moved', now[2]}
    end
    local work, units = tag .. args[10], tonumber(args[11])
    -- The last units of the two steps before.
    local before, last = string.match(now[4] or '', '^(%S*) (%S*)$')
    local is_paced = units > 0 and tonumber(now[3] or '0') > 0
    local paced = tag .. 'paced:' .. string.gsub(args[10], '^work:', '')
    local function waits(id)
        return (id or '') ~= '' and #redis.call('XRANGE', work, id, id) > 0
    end
    if units > 0 and args[14] == '' then
        if is_paced then
            -- Slow sends keep their units waiting for long. However many there are, there is room for a step of one that is not slow,
            -- and who has something waiting leaves room for who has nothing.
            local room = waits(last) and UNITS_WAITING_MAX / 2 or UNITS_WAITING_MAX - UNITS_PER_STEP_MAX
            if waits(before) or paced_waiting(work, paced) + units > room then
                renew(plan, group, consumer, entry, true)
                return {'paced'}
            end
        end
        if redis.call('XLEN', work) + units > UNITS_WAITING_MAX then
            renew(plan, group, consumer, entry, true)
            return {'full'}
        end
    end
    local planned, ids = tonumber(args[8]), {}
    for index = 0, units - 1 do
        planned = planned + tonumber(args[12 + index * 3])
        ids[index + 1] = add_again(work, args[14 + index * 3], args[13 + index * 3])
    end
    redis.call('HINCRBY', state, 'planned', digits(planned))
    redis.call('HSET', state, 'cursor:' .. route, args[5])
    if is_paced then
        redis.call('HSET', state, 'ahead:' .. route, (last or '') .. ' ' .. ids[units])
        redis.call('SADD', paced, unpack(ids))
        redis.call('PEXPIRE', paced, PACED_KEPT_MS)
    end
    if args[6] ~= '' then
        redis.call('XADD', tag .. 'outcomes', '*', 'm', args[6])
    end
    if args[7] == 'expired' then
        redis.call('HSET', state, 'expired', '1')
    end
    if args[7] ~= '' then
        redis.call('HINCRBY', state, 'planning', -1)
        done(plan, group, entry)
    else
        renew(plan, group, consumer, entry, true)
    end
    return {'ok', unpack(ids)}
end}
