-- The stream functions share these. Every key that they touch lies in one slot: names are built from the tag of a declared key.

local RECEIPTS_RETENTION_MS = 72 * 3600 * 1000
local DEAD_LETTERS_MAX = 10000
local DEAD_LETTERS_BYTES_MAX = 16777216 -- of a shard, as Redis counts its memory
local DEAD_LETTERS_KEPT_MS = 2592000000 -- 30 days
local UNITS_WAITING_MAX = 64 -- per route and lane, of sends without rates of their own
local UNITS_PACED_MAX = 128 -- of sends with such rates
local UNITS_MAX = 256 -- of all sends, for one with such a rate
local CLAIM_ENTRIES_MAX = 64 -- of all streams of one call
local ENTRY_BYTES_MAX = 524288 -- of a message that is taken over or read again
local DELIVERIES_TOGETHER_MAX = 2
local DELIVERIES_MAX = 5
local SENDS_LISTED_MAX = 5000 -- of an app, per shard
local SENDS_LISTED_MS = 2592000000 -- 30 days
local SENDS_UNLISTED_MAX = 32 -- when one is entered
local SENDS_PASSED_MAX = 256 -- that have not ended, before those
local COMMAND_KEPT_BYTES_MAX = 8192 -- of a send that has ended

local function now_ms()
    local time = redis.call('TIME')
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
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
    return #redis.call('XPENDING', stream, group, entry, entry, '1', consumer) == 1
end

-- Returns the message among an entry's fields; '' when there is none. Of one that is larger than any only the beginning: all of it would
-- be more than a reply may have, so its owner could not even bury it.
local function message_of(fields)
    for index = 1, #fields, 2 do
        if fields[index] == 'm' then
            return string.sub(fields[index + 1], 1, ENTRY_BYTES_MAX)
        end
    end
    return ''
end

-- Returns whether a stream has an entry whose message has that digest ('' any): the first sixteen digits of its SHA-1.
local function has_message(stream, entry, digest)
    local found = redis.call('XRANGE', stream, entry, entry)[1]
    return found ~= nil and (digest == '' or string.sub(redis.sha1hex(message_of(found[2])), 1, 16) == digest)
end

-- Returns the values of an answer to XINFO by their names.
local function named(answer)
    local values = {}
    for index = 1, #answer, 2 do
        values[answer[index]] = answer[index + 1]
    end
    return values
end

-- Returns what XINFO says of a group of a stream; nil if there is no such group.
local function group_information(stream, group)
    for _, answer in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
        local values = named(answer)
        if values['name'] == group then
            return values
        end
    end
end

-- Renews the lease of an entry. Progress resets the delivery count, so that only deliveries without progress count as poison.
local function renew_lease(stream, group, consumer, entry, progressed)
    if progressed then
        redis.call('XCLAIM', stream, group, consumer, 0, entry, 'RETRYCOUNT', 1, 'JUSTID')
    else
        redis.call('XCLAIM', stream, group, consumer, 0, entry, 'JUSTID')
    end
end

-- Returns the set beside a stream of units that holds the ids of paced ones: those of sends with rates of their own, which stay for long and
-- take no room of others.
local function paced_key(work)
    return tag_of(work) .. 'paced:' .. string.gsub(name_of(work), '^work:', '')
end

-- Acknowledges an entry and takes it out of its stream; returns 1, or 0 if it was not pending. A unit is no paced one from then on.
local function acknowledge(stream, group, entry)
    local acknowledged = redis.call('XACK', stream, group, entry)
    redis.call('XDEL', stream, entry)
    if string.find(name_of(stream), '^work:') then
        redis.call('SREM', paced_key(stream), entry)
    end
    return acknowledged
end

-- Acknowledges pending entries, at most 64, and takes them out of their stream.
local function acknowledge_all(stream, group, entries)
    if #entries > 0 then
        redis.call('XACK', stream, group, unpack(entries))
        redis.call('XDEL', stream, unpack(entries))
    end
end

-- Returns the text that names a send among those of all apps: '<app>/<id>'. Below, `send` is that text wherever it is a part of a key.
local function send_key(app, id)
    return app .. '/' .. id
end

-- Returns the text that names the send whose state is at that key.
local function send_of(state)
    return string.match(state, '^%b{}send:(.*)$')
end

-- Removes up to `most` sends from a list, the oldest between two ranks, but none that was accepted later than `time` or has not ended.
local function unlist_ended(list, tag, app, rank, last, time, most)
    local size = 1 -- mostly the first one decides
    while most > 0 and rank <= last do
        local sends = redis.call('ZRANGE', list, rank, rank + size - 1, 'WITHSCORES')
        for index = 1, #sends, 2 do
            if tonumber(sends[index + 1]) > time then
                return
            elseif most > 0 and redis.call('SISMEMBER', tag .. 'open_sends', send_key(app, sends[index])) == 0 then
                redis.call('ZREM', list, sends[index])
                most = most - 1
            else
                rank = rank + 1
            end
        end
        if #sends < 2 * size then
            return
        end
        size = math.min(2 * size, SENDS_UNLISTED_MAX)
    end
end

-- Enters an open send, which begins at `due` (0: now), in the list of its app's sends, also if an earlier one with its id is there. The list
-- keeps the last ones of each shard for a time, and those that have not ended.
local function list_send(tag, app, send, now, due)
    local list = tag .. 'sends:' .. app
    redis.call('ZADD', list, digits(now), send)
    unlist_ended(list, tag, app, 0, SENDS_PASSED_MAX, now - SENDS_LISTED_MS, SENDS_UNLISTED_MAX)
    local surplus = redis.call('ZCARD', list) - SENDS_LISTED_MAX
    unlist_ended(list, tag, app, 0, SENDS_PASSED_MAX, math.huge, math.min(surplus, SENDS_UNLISTED_MAX))
    if surplus > SENDS_LISTED_MAX then
        -- Ended ones stand behind many that have not ended: the clock says where they are looked for.
        local rank = now % surplus
        unlist_ended(list, tag, app, rank, rank + SENDS_UNLISTED_MAX - 1, math.huge, SENDS_UNLISTED_MAX)
    end
    local life = SENDS_LISTED_MS + math.max(0, due - now)
    if redis.call('PTTL', list) < life then
        redis.call('PEXPIRE', list, digits(life))
    end
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

-- Opens a send: keeps its command until it ends, and counts both for its app in the hash {q}open:<app>.
local function open_send(tag, app, send, command)
    redis.call('SET', tag .. 'command:' .. send, command)
    if redis.call('SADD', tag .. 'open_sends', send) == 1 then
        redis.call('HINCRBY', tag .. 'open:' .. app, 'sends', 1)
        redis.call('HINCRBY', tag .. 'open:' .. app, 'bytes', #command)
    end
end

-- Counts a send, whose command has so many bytes, as ended.
local function close_send(tag, send, bytes)
    if redis.call('SREM', tag .. 'open_sends', send) == 0 then
        return
    end
    local open = tag .. 'open:' .. string.match(send, '^[^/]*')
    if redis.call('HINCRBY', open, 'sends', -1) <= 0 then
        redis.call('DEL', open)
    else
        redis.call('HINCRBY', open, 'bytes', -bytes)
    end
end

local function is_paused(tag, send)
    return redis.call('HGET', tag .. 'send:' .. send, 'state') == 'paused'
end

-- Returns the time at which Redis gave out an entry's id, in ms.
local function written_at(entry)
    return tonumber(string.match(entry, '^%d+'))
end

-- Returns the time of the oldest receipt that is kept. Ids of entries do not tell it: after a clock that was ahead they go on from there.
local function oldest_receipt()
    return digits(math.max(0, now_ms() - RECEIPTS_RETENTION_MS))
end

local function add_receipt(tag, receipt)
    redis.call('XADD', tag .. 'receipts', 'MINID', '~', oldest_receipt(), '*', 'm', receipt)
end

-- Appends a message and returns its id: the given one ('' none), unless something newer stands in the stream already. Returns Redis' error,
-- a table, if it cannot be appended.
local function try_add_with_id(stream, id, message)
    if id ~= '' then
        local added = redis.pcall('XADD', stream, id, 'm', message)
        if not added.err then
            return added
        end
    end
    return redis.pcall('XADD', stream, '*', 'm', message)
end

-- Does the same, but raises the error.
local function add_with_id(stream, id, message)
    local added = try_add_with_id(stream, id, message)
    if added.err then
        error(added, 0)
    end
    return added
end

-- The ids of paced units are kept for longer than an operator leaves a route paused, from the last step of a send with a rate on.
local PACED_KEPT_MS = 2592000000 -- 30 days

-- Records that a unit is paced. Its send may have got the rate after its plan, and a unit that was handed back has another id.
local function add_paced(work, entry)
    local paced = paced_key(work)
    if redis.call('SADD', paced, entry) == 1 then
        redis.call('PEXPIRE', paced, PACED_KEPT_MS)
    end
end

local CLOCK_STEP_MIN_MS = 1000 -- less delays no retry by much
local RETRIES_MOVED_MAX = 10000 -- of a shard that move along with the clock
local DUE_LOOKED_AT_MAX = 100000 -- of its scheduled messages, among which they are found
local DUE_READ_AT_ONCE = 10000

-- Returns the retries of a shard that are not due yet, each with its time, in one list.
local function waiting_retries(due, now)
    local retries = {}
    for first = 0, DUE_LOOKED_AT_MAX - DUE_READ_AT_ONCE, DUE_READ_AT_ONCE do
        local found = redis.call('ZRANGEBYSCORE', due, digits(now), '+inf', 'WITHSCORES', 'LIMIT', first, DUE_READ_AT_ONCE)
        for index = 1, #found, 2 do
            if not string.find(found[index], '/plan/%d+$') then
                retries[#retries + 1] = found[index]
                retries[#retries + 1] = found[index + 1]
            end
            if #retries == 2 * RETRIES_MOVED_MAX then
                return retries
            end
        end
        if #found < 2 * DUE_READ_AT_ONCE then
            break
        end
    end
    return retries
end

-- Notes the time of the server. Where it has gone back since it was last noted, the times of retries move along, so that they wait as long as
-- they were to. The time at which a publisher wants a send to begin stays.
local function note_time(tag, now)
    local claims, due = tag .. 'claims', tag .. 'due'
    local step = tonumber(redis.call('HGET', claims, 'read_at') or '0') - now
    redis.call('HSET', claims, 'read_at', digits(now))
    if step < CLOCK_STEP_MIN_MS then
        return
    end
    local retries = waiting_retries(due, now)
    for index = 1, #retries, 2 do
        redis.call('ZADD', due, 'XX', digits(tonumber(retries[index + 1]) - step), retries[index])
    end
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
        -- It is taken out first: a caller who may not do that would add it to its stream at every attempt.
        redis.call('HDEL', tag .. 'due:messages', id)
        entry = try_add_with_id(tag .. stream, entry, message)
        if entry.err then
            redis.call('HSET', tag .. 'due:messages', id, body)
            error(entry, 0)
        end
    end
    redis.call('ZREM', due, id)
    return body and entry or nil
end

-- Returns the subroutes of a route that the provider refuses: their names, sorted, its word for each, and until when each counts as
-- refused. They are stored as lines of a name, a time and a word.
local function subroute_faults(route, now)
    local faults = {names = {}, words = {}, ends = {}}
    local text = redis.call('HGET', route, 'subroute_faults') or ''
    for name, ends, word in string.gmatch(text, '([^\t\n]+)\t(%d+)\t([^\n]*)\n') do
        if tonumber(ends) > now then
            faults.names[#faults.names + 1] = name
            faults.words[name], faults.ends[name] = word, tonumber(ends)
        end
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
