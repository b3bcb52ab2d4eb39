-- The stream functions share these. Every key that they touch lies in one slot: names are built from the tag of a declared key.

local IDEMPOTENCY_WINDOW_MS = 24 * 3600 * 1000 -- until a dispatcher has set another
local IDEMPOTENCY_PERIODS = 6 -- of a window
local RECEIPTS_RETENTION_MS = 72 * 3600 * 1000
local DEAD_LETTERS_MAX = 10000
local DEAD_LETTERS_BYTES_MAX = 16777216 -- of a shard, as Redis counts its memory
local DEAD_LETTERS_KEPT_MS = 2592000000 -- 30 days
local UNITS_WAITING_MAX = 64 -- per route and lane
local UNITS_PER_STEP_MAX = 16
local CLAIM_ENTRIES_MAX = 64 -- of all streams of one call
local ENTRY_BYTES_MAX = 524288 -- of a message that is taken over or read again
local DELIVERIES_TOGETHER_MAX = 2
local DELIVERIES_MAX = 5

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

-- Returns a key's name without its tag, as journals and scheduled messages store it.
local function name_of(key)
    return string.sub(key, #tag_of(key) + 1)
end

-- Returns whether the entry is still pending with this consumer: XACK alone does not ask.
local function owns(stream, group, consumer, entry)
    return #redis.call('XPENDING', stream, group, entry, entry, 1, consumer) == 1
end

-- Renews the lease of an entry. Progress resets the delivery count, so that only deliveries without progress count as poison.
local function renew_lease(stream, group, consumer, entry, progressed)
    if progressed then
        redis.call('XCLAIM', stream, group, consumer, 0, entry, 'RETRYCOUNT', 1, 'JUSTID')
    else
        redis.call('XCLAIM', stream, group, consumer, 0, entry, 'JUSTID')
    end
end

-- Acknowledges an entry and takes it out of its stream; returns 1, or 0 if it was not pending.
local function acknowledge(stream, group, entry)
    local acknowledged = redis.call('XACK', stream, group, entry)
    redis.call('XDEL', stream, entry)
    return acknowledged
end

-- Returns the text that names a send among those of all apps: '<app>/<id>'. Below, `send` is that text wherever it is a part of a key.
local function send_key(app, id)
    return app .. '/' .. id
end

-- Returns the text that names the send whose state is at that key.
local function send_of(state)
    return string.match(state, '^%b{}send:(.*)$')
end

-- A held entry is three elements of its send's list {q}held:<app>/<id>: the name of its stream, its message, its journal ('' none). The hash
-- {q}held counts the held entries of each send that has some.
local HELD_ELEMENTS = 3

-- Moves an entry of a paused send, with its journal, out of its stream to the send's held entries, where it delays no other.
local function hold(stream, group, entry, send, journal)
    local tag, name = tag_of(stream), name_of(stream)
    local found = redis.call('XRANGE', stream, entry, entry)
    redis.call('RPUSH', tag .. 'held:' .. send, name, found[1][2][2], journal)
    redis.call('HINCRBY', tag .. 'held', send, 1)
    redis.call('HDEL', tag .. 'journal', name .. '/' .. entry)
    acknowledge(stream, group, entry)
end

-- Appends a message to the stream of that name, with the journal ('' none) that an earlier entry of it left.
local function append_with_journal(tag, name, message, journal)
    local entry = redis.call('XADD', tag .. name, '*', 'm', message)
    if journal ~= '' then
        redis.call('HSET', tag .. 'journal', name .. '/' .. entry, journal)
    end
end

-- Moves up to `count` held entries of a send back to their streams; returns how many are still held.
local function release_held(tag, send, count)
    local held = tag .. 'held:' .. send
    for _ = 1, count do
        local parts = redis.call('LPOP', held, HELD_ELEMENTS)
        if not parts then
            break
        end
        append_with_journal(tag, parts[1], parts[2], parts[3])
    end
    local left = redis.call('LLEN', held) / HELD_ELEMENTS
    if left > 0 then
        redis.call('HSET', tag .. 'held', send, digits(left))
    else
        redis.call('HDEL', tag .. 'held', send)
    end
    return left
end

local function is_paused(tag, send)
    return redis.call('HGET', tag .. 'send:' .. send, 'state') == 'paused'
end

-- Returns the time at which Redis gave out an entry's id, in ms.
local function written_at(entry)
    return tonumber(string.match(entry, '^%d+'))
end

-- now: ms; nil asks the server
local function add_receipt(tag, receipt, now)
    local oldest = math.max(0, (now or now_ms()) - RECEIPTS_RETENTION_MS)
    redis.call('XADD', tag .. 'receipts', 'MINID', '~', digits(oldest), '*', 'm', receipt)
end

-- Appends a message and returns its id: the given one ('' none), unless something newer stands in the stream already.
local function add_with_id(stream, id, message)
    if id ~= '' then
        local added = redis.pcall('XADD', stream, id, 'm', message)
        if not added.err then
            return added
        end
    end
    return redis.call('XADD', stream, '*', 'm', message)
end

-- Stores a message that is to move to the stream of that name at `due` (ms); the same id twice is one.
local function add_due(tag, due, id, stream, message)
    redis.call('HSET', tag .. 'due:messages', id, stream .. '\0' .. message)
    redis.call('ZADD', tag .. 'due', digits(due), id)
end

-- Moves a message that was stored under `id` to its stream, as entry `entry` if it had that id there before ('' else); returns its id
-- there, or nil if there is no such message.
local function move_due(due, id, entry)
    local tag = tag_of(due)
    local body = redis.call('HGET', tag .. 'due:messages', id)
    if body then
        local stream, message = string.match(body, '^([^%z]*)%z(.*)$')
        entry = add_with_id(tag .. stream, entry, message)
        redis.call('HDEL', tag .. 'due:messages', id)
    end
    redis.call('ZREM', due, id)
    return body and entry or nil
end

-- The idempotency keys lie in hashes {q}idem:<period>, of which a window has six. The hash {q}idem has the number of the current period
-- ('period'), its beginning ('begun_at', ms) and the window ('window_ms'). Periods are numbered consecutively and not by the clock, so that
-- a clock that goes back forgets none.
--
-- A field is the digest of a key, 12 bytes: the first is 'i' if the key is the send's own id, else 'k'. A value is 8 bytes of digest of the
-- command's content, the origin (below), and, unless the key says it, the send's id.
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

-- Finds the send that an idempotency key names: returns digest, send, origin, and the hash that has them; nil if there is none. The
-- parameter `send` is the send that the key names if the key is a send's own id.
local function idempotency_find(tag, key, send)
    local current = tonumber(redis.call('HGET', tag .. 'idem', 'period') or '0')
    for period = current, math.max(1, current - IDEMPOTENCY_PERIODS), -1 do
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

local function idempotency_put(tag, key, digest, send, origin, now)
    local known = redis.call('HMGET', tag .. 'idem', 'period', 'begun_at', 'window_ms')
    local period, begun, window = tonumber(known[1] or '0'), tonumber(known[2] or '0'), tonumber(known[3] or IDEMPOTENCY_WINDOW_MS)
    local length = math.ceil(window / IDEMPOTENCY_PERIODS)
    local is_moved = now < begun
    if period == 0 or now - begun >= length then
        period = period + 1
        redis.call('HSET', tag .. 'idem', 'period', period, 'begun_at', digits(now))
    elseif is_moved then
        -- The clock went back: the period begins anew, and its hash is kept as if it had.
        redis.call('HSET', tag .. 'idem', 'begun_at', digits(now))
    end
    local place = tag .. 'idem:' .. digits(period)
    local tail = string.byte(key) == IDEMPOTENCY_OF_ID and '' or send
    redis.call('HSET', place, key, digest .. pack_origin(tag, origin) .. tail)
    if is_moved then
        redis.call('PEXPIRE', place, digits(window + length))
    else
        -- Each time: a hash of which every key was forgotten is made anew.
        redis.call('PEXPIRE', place, digits(window + length), 'NX')
    end
end

-- Returns the subroutes of a route that the provider refuses: their names, sorted, and its word for each. They are stored as lines of
-- a name, a tab and a word.
local function subroute_faults(route)
    local faults = {names = {}, words = {}}
    for name, word in string.gmatch(redis.call('HGET', route, 'subroute_faults') or '', '([^\t\n]+)\t([^\n]*)\n') do
        faults.names[#faults.names + 1] = name
        faults.words[name] = word
    end
    return faults
end

-- Returns for how many microseconds a rate limit still gives out nothing, after a provider asked for a pause.
local function pause_left(now, state)
    if not state.pause_for then
        return 0
    end
    if now < state.pause_at then
        state.pause_at = now
    end
    return math.max(0, state.pause_at + state.pause_for - now)
end
