-- These functions list the sends of an app.
local SENDS_READ_MAX = 500 -- ledgers that one call reads
local SENDS_PAGE = 100

-- Returns the state of a send as its list shows it: 'scheduled', 'planning', 'running', 'paused', 'cancelled' or 'done'.
local function listed_state(fields, now)
    local known = {}
    for index = 1, #fields, 2 do
        known[fields[index]] = fields[index + 1]
    end
    if known.cancelled == '1' then
        return 'cancelled'
    end
    if known.state ~= 'running' or tonumber(known.planning or '0') <= 0 then
        return known.state
    end
    local is_early = known.planned == '0' and tonumber(known.not_before or '0') > now
    return is_early and 'scheduled' or 'planning'
end

-- Returns whether a text comes before another by their bytes, as Redis orders members; `<` orders texts as the language of the server has it.
local function precedes(text, other)
    for index = 1, #text do
        local byte, counterpart = string.byte(text, index), string.byte(other, index)
        if byte ~= counterpart then return counterpart ~= nil and byte < counterpart end
    end
    return #text < #other
end

-- Lists sends of an app that have a ledger in this shard, the last accepted first.
-- KEYS: 1 {q}sends:<app>
-- Returns: {rows, more}; a row is {id, when it was accepted in ms, fields and values of the ledger}; more is {} at the end, else the time
--          and the id of the send that was looked at last
register_function{
    name = 'apus2_list_sends',
    flags = {'no-writes'},
    required = 2,
    run = function(
        keys,
        app,
        limit, -- rows
        before_ms, -- sends accepted before that time only; absent: all
        before_send, -- and those of that time whose id is smaller
        state, -- of the sends wanted; '': any
        search -- text that is a part of their ids; '': any
    )
        before_send = before_send or ''
        state = state or ''
        search = search or ''
        local list, now = keys[1], now_ms()
        local tag, rows, read, from = tag_of(list), {}, 0, 0
        local newest = before_ms and digits(before_ms) or '+inf'
        while true do
            local page = redis.call('ZREVRANGEBYSCORE', list, newest, '-inf', 'WITHSCORES', 'LIMIT', from, SENDS_PAGE)
            for index = 1, #page, 2 do
                local send, time = page[index], page[index + 1]
                if not before_ms or tonumber(time) < before_ms or precedes(send, before_send) then
                    if search == '' or string.find(send, search, 1, true) then
                        local fields = redis.call('HGETALL', tag .. 'send:' .. send_key(app, send))
                        read = read + 1
                        if #fields > 0 and (state == '' or listed_state(fields, now) == state) then
                            rows[#rows + 1] = {send, time, fields}
                        end
                    end
                    if #rows >= limit or read >= SENDS_READ_MAX then
                        return {rows, {time, send}}
                    end
                end
            end
            if #page < 2 * SENDS_PAGE then
                return {rows, {}}
            end
            from = from + SENDS_PAGE
        end
    end,
}
