-- What the stream functions share. Every key they touch lies in one slot: names are built from the tag of a declared key.

local IDEMPOTENCY_PERIOD_MS = 4 * 3600 * 1000
local IDEMPOTENCY_PERIODS = 7 -- the current one and the six before: at least 24 hours
local RECEIPTS_RETENTION_MS = 72 * 3600 * 1000
local DEAD_LETTERS_MAX = 10000
local UNITS_WAITING_MAX = 64 -- per route and lane

local function now_ms()
    local time = redis.call('TIME')
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

local function digits(number)
    return string.format('%.0f', number)
end

local function tag_of(key)
    return string.match(key, '^(%b{})')
end

-- The name without its tag: what journals and due entries store.
local function name_of(key)
    return string.sub(key, #tag_of(key) + 1)
end

-- Whether the entry is still pending with this consumer: XACK alone does not ask.
local function owns(stream, group, consumer, entry)
    return #redis.call('XPENDING', stream, group, entry, entry, 1, consumer) == 1
end

-- Renews the lease. Progress resets the delivery count, so that only deliveries without progress count as poison.
local function renew(stream, group, consumer, entry, progressed)
    if progressed then
        redis.call('XCLAIM', stream, group, consumer, 0, entry, 'RETRYCOUNT', 1, 'JUSTID')
    else
        redis.call('XCLAIM', stream, group, consumer, 0, entry, 'JUSTID')
    end
end

local function done(stream, group, entry)
    local acknowledged = redis.call('XACK', stream, group, entry)
    redis.call('XDEL', stream, entry)
    return acknowledged
end

local function add_receipt(tag, receipt)
    local oldest = math.max(0, now_ms() - RECEIPTS_RETENTION_MS)
    redis.call('XADD', tag .. 'receipts', 'MINID', '~', digits(oldest), '*', 'm', receipt)
end

-- Files a message to be moved to `stream` at `due`; the same id twice is one.
local function add_due(tag, due, id, stream, message)
    redis.call('HSET', tag .. 'due:body', id, stream .. '\0' .. message)
    redis.call('ZADD', tag .. 'due', due, id)
end

local function idempotency_field(app, key)
    return app .. '\0' .. key
end

-- The send that the key named within the window: digest, send, origin; nil if none.
local function idempotency_find(tag, app, key, now)
    local period = math.floor(now / IDEMPOTENCY_PERIOD_MS)
    for back = 0, IDEMPOTENCY_PERIODS - 1 do
        local found = redis.call('HGET', tag .. 'idem:' .. digits(period - back), idempotency_field(app, key))
        if found then
            return string.match(found, '^([^%z]*)%z([^%z]*)%z(.*)$')
        end
    end
    return nil
end

local function idempotency_put(tag, app, key, digest, send, origin, now)
    local period = tag .. 'idem:' .. digits(math.floor(now / IDEMPOTENCY_PERIOD_MS))
    redis.call('HSET', period, idempotency_field(app, key), digest .. '\0' .. send .. '\0' .. origin)
    redis.call('PEXPIRE', period, digits((IDEMPOTENCY_PERIODS + 1) * IDEMPOTENCY_PERIOD_MS), 'NX')
end
