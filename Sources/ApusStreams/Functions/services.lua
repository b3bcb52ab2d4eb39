-- These functions keep the list of the services' processes, which report themselves every few seconds while they run.
local PROCESSES_MAX = 1000
local PROCESS_SILENT_MS = 15000 -- after its last report it counts as missing
local PROCESS_KEPT_MS = 86400000 -- after its last report
local STOPPED = '\0' -- begins the fields that hold when a process of a service last stopped; no process has such a name

-- Splits a stored report: the service, the version, when the process started, when it last reported, and the rest: what keeps it from
-- being ready, the routes whose provider fails, why it goes on with former settings, and '1' if it encrypts records of devices, each behind a
-- zero byte but the first.
local function report_parts(value)
    return string.match(value, '^(%S+) (%S+) (%d+) (%d+) (.*)$')
end

-- Forgets the processes that have not reported for a day, and the one that is silent for longest where there are too many.
local function forget_processes(hash, now)
    local fields, oldest, oldest_seen, left = redis.call('HGETALL', hash), nil, nil, 0
    for index = 1, #fields, 2 do
        if string.sub(fields[index], 1, 1) ~= STOPPED then
            local _, _, _, seen = report_parts(fields[index + 1])
            seen = tonumber(seen or '0')
            if now - seen > PROCESS_KEPT_MS then
                redis.call('HDEL', hash, fields[index])
            else
                left = left + 1
                if not oldest_seen or seen < oldest_seen then
                    oldest, oldest_seen = fields[index], seen
                end
            end
        end
    end
    if left > PROCESSES_MAX then
        redis.call('HDEL', hash, oldest)
    end
end

-- Records that a process runs.
-- KEYS: 1 apus:services
-- Returns: 1
register_function{
    name = 'apus2_report_service',
    flags = {'allow-oom'},
    required = 4,
    run = function(
        keys,
        process, -- the name of the process
        service, -- 'registration' · 'dispatcher' · 'feedback'
        version,
        uptime_ms,
        problem, -- what keeps it from being ready; none: it is ready
        refused_configuration, -- why it goes on with former settings although its configuration has changed; none: it does not
        failing_routes, -- routes that fail, one a line: route, tab, milliseconds, tab, reason[, tab, 'unreachable']; none: there are none
        encrypts_records -- true: it has keys for records of devices
    )
        local hash, now = keys[1], now_ms()
        local value = service .. ' ' .. version .. ' ' .. digits(now - uptime_ms) .. ' ' .. digits(now) .. ' ' .. (problem or '')
            .. '\0' .. (failing_routes or '') .. '\0' .. (refused_configuration or '') .. '\0' .. (encrypts_records and '1' or '')
        if redis.call('HSET', hash, process, value) == 1 then
            forget_processes(hash, now)
        end
        redis.call('PEXPIRE', hash, PROCESS_KEPT_MS)
        return 1
    end,
}

-- Takes a process out of the list: it stops, or an operator knows that it will not come back. The process of its service whose place it
-- took, the last to fall silent before it started, goes with it. The time at which one that was not silent stopped is kept for a day.
-- KEYS: 1 apus:services
-- Returns: 1; 0 if it was not in the list
register_function{
    name = 'apus2_remove_service',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        process
    )
        local hash = keys[1]
        local value = redis.call('HGET', hash, process)
        if not value then
            return 0
        end
        redis.call('HDEL', hash, process)
        local now, service, _, started, last_seen = now_ms(), report_parts(value)
        if now - tonumber(last_seen) <= PROCESS_SILENT_MS then
            redis.call('HSET', hash, STOPPED .. service, digits(now))
            redis.call('PEXPIRE', hash, PROCESS_KEPT_MS)
        end
        local fields, replaced, replaced_seen = redis.call('HGETALL', hash), nil, 0
        for index = 1, #fields, 2 do
            local other, _, _, seen = report_parts(fields[index + 1])
            seen = tonumber(seen or '0')
            if other == service and seen < tonumber(started) and now - seen > PROCESS_SILENT_MS and seen > replaced_seen then
                replaced, replaced_seen = fields[index], seen
            end
        end
        if replaced then
            redis.call('HDEL', hash, replaced)
        end
        return 1
    end,
}

-- Lists the processes.
-- KEYS: 1 apus:services
-- Returns: for each {name, service, version, milliseconds since its start, milliseconds since its last report, problem or '',
--          routes whose provider fails or '', why it goes on with former settings or '', '1' if it encrypts records of devices or ''}
register_function{
    name = 'apus2_list_services',
    flags = {'no-writes'},
    required = 0,
    run = function(keys)
        local now, rows = now_ms(), {}
        local fields = redis.call('HGETALL', keys[1])
        for index = 1, #fields, 2 do
            local service, version, started, seen, rest = report_parts(fields[index + 1])
            if service and now - tonumber(seen) <= PROCESS_KEPT_MS then
                local problem, failing_routes, refused_configuration, encrypts_records =
                    string.match(rest, '^([^%z]*)%z?([^%z]*)%z?([^%z]*)%z?(.*)$')
                rows[#rows + 1] = {
                    fields[index], service, version, math.max(0, now - tonumber(started)), math.max(0, now - tonumber(seen)),
                    problem, failing_routes, refused_configuration, encrypts_records,
                }
            end
        end
        return rows
    end,
}

-- Lists when a process of each service last stopped as it was asked to, if that is not longer ago than a day.
-- KEYS: 1 apus:services
-- Returns: for each {service, milliseconds since then}
register_function{
    name = 'apus2_list_stopped_services',
    flags = {'no-writes'},
    required = 0,
    run = function(keys)
        local now, rows = now_ms(), {}
        local fields = redis.call('HGETALL', keys[1])
        for index = 1, #fields, 2 do
            local stopped = string.sub(fields[index], 1, 1) == STOPPED and tonumber(fields[index + 1])
            if stopped and now - stopped <= PROCESS_KEPT_MS then
                rows[#rows + 1] = {string.sub(fields[index], 2), math.max(0, now - stopped)}
            end
        end
        return rows
    end,
}
