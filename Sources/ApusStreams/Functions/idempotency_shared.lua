-- Deduplication of commands: finds and keeps the send that an idempotency key names, for the functions that publish, admit and accept.
--
-- The idempotency keys lie in hashes {q}idem:<period>, of which a window has six. The hash {q}idem has the number of the current period
-- ('period'), its beginning ('begun_at', ms) and the window ('window_ms'). Periods are numbered consecutively and not by the clock, so that
-- a clock that goes back forgets none.
--
-- A field is the digest of a key, 12 bytes: the first is 'i' if the key is the send's own id, else 'k'; one field is empty. A value is 8 bytes of
-- digest of the command's content, the origin (below), and, unless the key says it, the send's id.
local IDEMPOTENCY_WINDOW_MS = 24 * 3600 * 1000 -- until a dispatcher has set another
local IDEMPOTENCY_PERIODS = 6 -- of a window
local IDEMPOTENCY_OF_ID = 105 -- 'i'
local IDEMPOTENCY_DIGEST_BYTES = 8
-- An origin in a mailbox of the same shard is its letter and the entry's id in ten bytes; any other is 't', its length in two bytes, its text.
local MAILBOX_LETTERS = {['in:express'] = 'e', ['in:bulk'] = 'b'}
local MAILBOX_NAMES = {e = 'in:express', b = 'in:bulk'}
local ENTRY_TIME_MAX = 2 ^ 48
local ENTRY_NUMBER_MAX = 2 ^ 32

local function pack_origin(tag, origin)
    local stream, time, number = string.match(origin, '^(.*)/(%d+)-(%d+)$')
    local letter = stream and string.sub(stream, 1, #tag) == tag and MAILBOX_LETTERS[string.sub(stream, #tag + 1)]
    if letter and tonumber(time) < ENTRY_TIME_MAX and tonumber(number) < ENTRY_NUMBER_MAX then
        return letter .. struct.pack('>I6I4', tonumber(time), tonumber(number))
    end
    return 't' .. struct.pack('>I2', #origin) .. origin
end

-- Returns the origin that begins at that position of a value, and the position behind it.
local function unpack_origin(tag, value, from)
    local name = MAILBOX_NAMES[string.sub(value, from, from)]
    if name then
        local time, number = struct.unpack('>I6I4', value, from + 1)
        return tag .. name .. '/' .. digits(time) .. '-' .. digits(number), from + 11
    end
    local length = struct.unpack('>I2', value, from + 1)
    return string.sub(value, from + 3, from + 2 + length), from + 3 + length
end

-- Returns the current period (0 none), its beginning (ms) and the window (ms), which the next two functions take.
local function idempotency_periods(tag)
    local known = redis.call('HMGET', tag .. 'idem', 'period', 'begun_at', 'window_ms')
    return {
        current = tonumber(known[1] or '0'),
        begun = tonumber(known[2] or '0'),
        window = tonumber(known[3] or IDEMPOTENCY_WINDOW_MS),
    }
end

-- Finds the send that an idempotency key names: returns digest, send, origin, and the hash that has them; nil if there is none. The
-- parameter `send` is the send that the key names if the key is a send's own id.
local function idempotency_find(tag, periods, key, send)
    for period = periods.current, math.max(1, periods.current - IDEMPOTENCY_PERIODS), -1 do
        local place = tag .. 'idem:' .. digits(period)
        local found = redis.call('HGET', place, key)
        if found then
            local digest = string.sub(found, 1, IDEMPOTENCY_DIGEST_BYTES)
            local origin, rest = unpack_origin(tag, found, IDEMPOTENCY_DIGEST_BYTES + 1)
            if string.byte(key) ~= IDEMPOTENCY_OF_ID then
                send = string.sub(found, rest)
            end
            return digest, send, origin, place
        end
    end
    return nil
end

local function idempotency_put(tag, periods, key, digest, send, origin, now)
    local period, begun, window = periods.current, periods.begun, periods.window
    local length = math.ceil(window / IDEMPOTENCY_PERIODS)
    local is_new = period == 0 or now - begun >= length
    if is_new then
        period = period + 1
        redis.call('HSET', tag .. 'idem', 'period', period, 'begun_at', digits(now))
        -- A hash that lost its time to live, because a clock step ended it before its period, must not stay for ever.
        redis.call('PEXPIRE', tag .. 'idem:' .. digits(period - IDEMPOTENCY_PERIODS - 1), 1)
    elseif now < begun then
        -- The clock went back: the period begins anew, and its hash is kept as if it had.
        redis.call('HSET', tag .. 'idem', 'begun_at', digits(now))
    end
    local place = tag .. 'idem:' .. digits(period)
    local tail = string.byte(key) == IDEMPOTENCY_OF_ID and '' or send
    redis.call('HSET', place, key, digest .. pack_origin(tag, origin) .. tail)
    if is_new or now < begun then
        -- The empty field keeps the hash, and with it its time to live, also when every key was forgotten.
        redis.call('HSET', place, '', '')
        redis.call('PEXPIRE', place, digits(window + length))
    end
end
