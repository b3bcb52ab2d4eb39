local PACED_LOOKED_AT_MAX = 8

-- Returns how many paced units wait in a stream. They are forgotten when they leave it. A Redis that came back without its last writes may
-- lack units that are not: each call looks for a few, at another time for others, because to find a unit copies it.
local function count_paced(work, paced)
    local ids = redis.call('SMEMBERS', paced)
    -- The microseconds differ even between calls that come at regular times.
    local count, first = #ids, tonumber(redis.call('TIME')[2])
    for number = 1, math.min(#ids, PACED_LOOKED_AT_MAX) do
        local id = ids[(first + number) % #ids + 1]
        if #redis.call('XRANGE', work, id, id) == 0 then
            redis.call('SREM', paced, id)
            count = count - 1
        end
    end
    return count
end

-- Returns whether a stream has room for that many units of a send without a rate of its own. Slow sends keep their units waiting for long:
-- they take none of it once a dispatcher has begun them, however many they left when they were slowed.
local function has_room(work, paced, units)
    local length = redis.call('XLEN', work) + units
    return length <= UNITS_WAITING_MAX or length - count_paced(work, paced) <= UNITS_WAITING_MAX
end

-- Returns whether a stream has room for that many units of a send with a rate of its own. A send with waiting units leaves room for one
-- without.
local function has_paced_room(work, paced, units, has_waiting)
    local room = has_waiting and UNITS_PACED_MAX / 2 or UNITS_PACED_MAX
    return count_paced(work, paced) + units <= room and redis.call('XLEN', work) + units <= UNITS_MAX
end

-- Makes one step of a route's plan: appends units and advances the cursor together, or does nothing. A plan that meets a paused send is
-- held with it, one that meets a cancelled send ends there.
-- KEYS: 1 {q}plan:<route>, 2 {q}send:<app>/<id>
-- Returns: {'ok', ids of the units} · {'lost'} (another owns the entry) · {'moved', cursor} · {'full'} ·
--          {'paced'} (enough waits of this send, which has a rate of its own, or of all that have) · {'paused'} · {'cancelled'}
register_function{
    name = 'apus2_advance_plan',
    flags = {'allow-oom'},
    required = 6,
    has_bulk = true,
    run = function(
        keys,
        units, -- WorkUnits
        group,
        consumer,
        entry,
        cursor, -- that the plan must have
        next_cursor,
        cancelled_outcomes, -- OutcomeBatch without counts that reports the end of a cancelled plan
        planned, -- recipients planned in this step beside those of units
        outcomes, -- OutcomeBatch to write
        ending, -- 'complete' · 'expired' (nobody more is looked for); '': there is more to find
        work, -- name of the units' stream
        unit_recipients, -- how many each has
        unit_entries -- ids that the units had, when the call is repeated after a failover
    )
        planned = planned or 0
        outcomes = outcomes or ''
        ending = ending or ''
        work = work or ''
        unit_recipients = unit_recipients or none
        unit_entries = unit_entries or none
        local plan, state = keys[1], keys[2]
        local tag, route = tag_of(plan), string.match(plan, ':(%d+)$')
        if not owns(plan, group, consumer, entry) then
            return {'lost'}
        end
        local known = redis.call('HMGET', state, 'state', 'cursor:' .. route, 'rate', 'ahead:' .. route)
        if known[1] == 'paused' then
            hold(plan, group, entry, send_of(state), '')
            return {'paused'}
        end
        if known[1] ~= 'running' then
            if known[1] then
                redis.call('HINCRBY', state, 'planning', -1)
                redis.call('XADD', tag .. 'outcomes', '*', 'm', cancelled_outcomes)
            end
            acknowledge(plan, group, entry)
            return {'cancelled'}
        end
        if known[2] ~= cursor then
            return {'moved', known[2]}
        end
        local work_key, unit_count = tag .. work, #units
        -- These are the last units of the two steps before.
        local before, last = string.match(known[4] or '', '^(%S*) (%S*)$')
        local is_paced = unit_count > 0 and tonumber(known[3] or '0') > 0
        local paced = paced_key(work_key)
        local function waits(id)
            return (id or '') ~= '' and #redis.call('XRANGE', work_key, id, id) > 0
        end
        if unit_count > 0 and #unit_entries == 0 then
            if is_paced then
                redis.call('PEXPIRE', paced, PACED_KEPT_MS)
                if waits(before) or not has_paced_room(work_key, paced, unit_count, waits(last)) then
                    renew_lease(plan, group, consumer, entry, true)
                    return {'paced'}
                end
            elseif not has_room(work_key, paced, unit_count) then
                renew_lease(plan, group, consumer, entry, true)
                return {'full'}
            end
        end
        local ids = {}
        for index, unit in ipairs(units) do
            planned = planned + unit_recipients[index]
            ids[index] = add_with_id(work_key, unit_entries[index] or '', unit)
        end
        redis.call('HINCRBY', state, 'planned', digits(planned))
        redis.call('HSET', state, 'cursor:' .. route, next_cursor)
        if is_paced then
            redis.call('HSET', state, 'ahead:' .. route, (last or '') .. ' ' .. ids[unit_count])
            redis.call('SADD', paced, unpack(ids))
            redis.call('PEXPIRE', paced, PACED_KEPT_MS)
        end
        if outcomes ~= '' then
            redis.call('XADD', tag .. 'outcomes', '*', 'm', outcomes)
        end
        if ending == 'expired' then
            redis.call('HSET', state, 'expired', '1')
        end
        if ending ~= '' then
            redis.call('HINCRBY', state, 'planning', -1)
            acknowledge(plan, group, entry)
        else
            renew_lease(plan, group, consumer, entry, true)
        end
        return {'ok', unpack(ids)}
    end,
}
