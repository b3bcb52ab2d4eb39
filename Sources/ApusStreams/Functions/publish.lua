-- Writes a command into a mailbox, once per idempotency key, unless the mailbox is full.
-- KEYS: 1 {q}in:<lane>
-- ARGV: 1 app, 2 idempotency key or '', 3 digest of the body, 4 send id, 5 entries the mailbox may hold, 6 SendCommand
-- Returns: {'new', send, entry} · {'duplicate', send} · {'conflict', send} · {'full', entries, ms after which to come back}
local PACE_MS = 1000 -- over which the pace of the mailbox is measured, at least
local PACE_FORGOTTEN_MS = 60000 -- an older measurement says nothing about now
local COME_BACK_MIN_MS = 100
local COME_BACK_UNKNOWN_MS = 1000
local COME_BACK_MAX_MS = 30000

-- In how many ms a tenth of the mailbox will be free, at the pace at which entries were taken of late: many come back at
-- once, so one free place is not enough.
local function come_back_ms(mailbox, length, most, now)
    local information, added = redis.call('XINFO', 'STREAM', mailbox), length
    for index = 1, #information, 2 do
        if information[index] == 'entries-added' then
            added = information[index + 1]
        end
    end
    local taken, place, name = added - length, tag_of(mailbox) .. 'pace', name_of(mailbox)
    local known = redis.call('HMGET', place, name .. '/at', name .. '/taken', name .. '/per_second')
    local at, before, pace = tonumber(known[1] or ''), tonumber(known[2] or ''), tonumber(known[3] or '')
    if not at or now < at or now - at > PACE_FORGOTTEN_MS or taken < before then
        redis.call('HSET', place, name .. '/at', digits(now), name .. '/taken', digits(taken))
        redis.call('HDEL', place, name .. '/per_second')
        return COME_BACK_UNKNOWN_MS
    end
    if now - at >= PACE_MS then
        pace = (taken - before) * 1000 / (now - at)
        redis.call('HSET', place, name .. '/at', digits(now), name .. '/taken', digits(taken), name .. '/per_second',
            string.format('%.3f', pace))
    end
    if not pace then
        return COME_BACK_UNKNOWN_MS
    end
    if pace == 0 then
        return COME_BACK_MAX_MS
    end
    return math.max(COME_BACK_MIN_MS, math.min(COME_BACK_MAX_MS, math.ceil(most / 10 / pace * 1000)))
end

redis.register_function{function_name = 'apus1_publish', callback = function(keys, args)
    local mailbox, app, key, digest, send = keys[1], args[1], args[2], args[3], args[4]
    local tag, now = tag_of(mailbox), now_ms()
    if key ~= '' then
        local known_digest, known_send, origin, place = idempotency_find(tag, app, key, now)
        if known_digest == digest then
            -- Written again as it is: a WAIT that follows speaks of the last write of its connection.
            redis.call('HSET', place, idempotency_field(app, key), digest .. '\0' .. known_send .. '\0' .. origin)
            return {'duplicate', known_send}
        elseif known_digest then
            return {'conflict', known_send}
        end
    end
    local length = redis.call('XLEN', mailbox)
    if length >= tonumber(args[5]) then
        return {'full', length, come_back_ms(mailbox, length, tonumber(args[5]), now)}
    end
    local entry = redis.call('XADD', mailbox, '*', 'm', args[6])
    if key ~= '' then
        idempotency_put(tag, app, key, digest, send, mailbox .. '/' .. entry, now)
    end
    return {'new', send, entry}
end}
