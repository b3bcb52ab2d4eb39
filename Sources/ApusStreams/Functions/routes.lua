-- These functions number routes, and control them for operators.
local CONNECTION_FAULT_MS = 120000 -- dispatchers try at least once in half of this

-- Gives a route its number, which never changes.
-- KEYS: 1 apus:routes
-- Returns: the number, from 1
register_function{
    name = 'apus2_number_route',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        route -- '<app>/<provider>/<environment>'
    )
        local number = redis.call('HGET', keys[1], route)
        if number then
            return tonumber(number)
        end
        number = redis.call('HINCRBY', keys[1], '#', 1)
        redis.call('HSET', keys[1], route, number)
        return number
    end,
}

-- Writes the numbers of routes that Redis has forgotten again, and sees that no new route gets one of those that are in use. Returns the names
-- that cannot have the number that the caller has: they have another, or another name has it.
local function restore_routes(hash, numbers, names)
    local greatest = 0
    for _, number in ipairs(numbers) do
        greatest = math.max(greatest, number)
    end
    if greatest > tonumber(redis.call('HGET', hash, '#') or '0') then
        redis.call('HSET', hash, '#', digits(greatest))
    end
    local contradicted, owners = {}, nil
    for index, name in ipairs(names) do
        local number = digits(numbers[index])
        local known = redis.call('HGET', hash, name)
        if not known and not owners then
            owners = {}
            local fields = redis.call('HGETALL', hash)
            for place = 1, #fields, 2 do
                if string.find(fields[place], '/', 1, true) then
                    owners[fields[place + 1]] = fields[place]
                end
            end
        end
        if not known and not owners[number] then
            redis.call('HSETNX', hash, name, number)
            owners[number] = name
        elseif known ~= number then
            contradicted[#contradicted + 1] = name
        end
    end
    return contradicted
end

-- Records which routes a dispatcher has configured ('@<number>' has the time of the last report), and returns the routes that none has had
-- for a while. When nobody has asked for long (all dispatchers were off, the clock jumped), no route's absence is known, so the time starts
-- anew. Redis may have come back without its last writes, or from an older state: the names are written again where they are missing.
-- KEYS: 1 apus:routes
-- Returns: numbers of the routes that no dispatcher has configured for that long, then the names of the caller's that Redis has another
--          number for
register_function{
    name = 'apus2_report_routes',
    flags = {'allow-oom'},
    required = 2,
    run = function(
        keys,
        routes, -- numbers of those that the caller has configured
        absence_ms,
        names -- of the same routes, in the same order
    )
        names = names or none
        local hash, now = keys[1], now_ms()
        local asked = tonumber(redis.call('HGET', hash, '#asked') or '0')
        local is_unknown = now < asked or now - asked > absence_ms / 2
        redis.call('HSET', hash, '#asked', digits(now))
        local contradicted = restore_routes(hash, routes, names)
        for _, number in ipairs(routes) do
            redis.call('HSET', hash, '@' .. digits(number), digits(now))
        end
        local absent = {}
        local fields = redis.call('HGETALL', hash)
        for index = 1, #fields, 2 do
            if string.find(fields[index], '/', 1, true) then
                local number = fields[index + 1]
                local seen = tonumber(redis.call('HGET', hash, '@' .. number) or '')
                if is_unknown or not seen or now < seen then
                    redis.call('HSET', hash, '@' .. number, digits(now))
                elseif now - seen >= absence_ms then
                    absent[#absent + 1] = tonumber(number)
                end
            end
        end
        for _, name in ipairs(contradicted) do
            absent[#absent + 1] = name
        end
        return absent
    end,
}

-- Sets an operator's command for a route; dispatchers learn of it with their next request for permits. Resuming also tells the mass-failure
-- guard that an operator has looked: only later answers can stop the route again, and the quarantine of its tokens continues. 'restore' is
-- a dispatcher's command: it clears what dispatchers have reported of our configuration, and nothing else.
-- KEYS: 1 {q}route:<route>
-- Returns: 1; for 'restore' 0 if the route was not stopped for our configuration
register_function{
    name = 'apus2_control_route',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        command, -- 'pause' · 'resume' · 'restore' · 'rate' · 'default_rate'
        rate_per_second -- permits, for 'rate'; 0: no limit
    )
        rate_per_second = rate_per_second or 0
        local route = keys[1]
        if command == 'pause' then
            redis.call('HSET', route, 'paused', '1')
            redis.call('HDEL', route, 'pause_reason')
        elseif command == 'resume' then
            redis.call('HDEL', route, 'paused', 'pause_reason', 'rejected_configurations', 'third_party_auth_error',
                'subroute_faults')
            guard_restart(route, now_ms())
        elseif command == 'restore' then
            local paused = redis.call('HGET', route, 'paused')
            if paused ~= 'configuration' and paused ~= 'credential' then
                return 0
            end
            redis.call('HDEL', route, 'paused', 'pause_reason', 'rejected_configurations')
        elseif command == 'rate' then
            redis.call('HSET', route, 'rate', rate_per_second)
        else
            redis.call('HDEL', route, 'rate')
        end
        return 1
    end,
}

-- Reads the state of a route.
-- KEYS: 1 {q}route:<route>
-- Returns: {1 paused by an operator, 2 by the guard, 3 for what the provider rejects of our configuration, 4 of our credential, or 0,
--           rate per second of an operator or '', rate per second of the configuration or '', ms until it may go on, level in millionths,
--           the provider's word that it was paused for or '', the provider's word for a third-party authentication error or '',
--           the rejected configurations, each '<fingerprint>:<kind of its fault>,', why a dispatcher could not reach the provider or '',
--           ms since it last tried, then for each subroute that the provider refuses
--           its name and the provider's word}
register_function{
    name = 'apus2_route_state',
    flags = {'no-writes'},
    run = function(keys)
        local known = redis.call('HMGET', keys[1], 'paused', 'rate', 'configured_rate', 'rate_limit', 'pause_reason',
            'third_party_auth_error', 'rejected_configurations', 'connection_fault', 'connection_fault_at')
        local time = redis.call('TIME')
        local state = known[4] and cmsgpack.unpack(known[4]) or {level = 1}
        local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
        local left = pause_left(now_us, state)
        local since_fault = math.max(0, math.floor(now_us / 1000) - tonumber(known[9] or 0))
        -- A dispatcher that still tries says so more often.
        local connection_fault = known[8] and since_fault <= CONNECTION_FAULT_MS and known[8] or ''
        local paused = ({guard = 2, configuration = 3, credential = 4})[known[1] or ''] or known[1] and 1 or 0
        local answer = {paused, known[2] or '', known[3] or '', math.ceil(left / 1000), math.floor(state.level * 1000000),
            known[5] or '', known[6] or '', known[7] or '', connection_fault, since_fault}
        local faults = subroute_faults(keys[1], math.floor(now_us / 1000))
        for _, name in ipairs(faults.names) do
            answer[#answer + 1] = name
            answer[#answer + 1] = faults.words[name]
        end
        return answer
    end,
}
