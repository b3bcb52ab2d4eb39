-- A rate limit of the whole fleet, of a route or of one send: a token bucket that fills at the rate and holds a few hundredths of a second,
-- and an account for each member, an event loop of a dispatcher. What flows in is divided among the members that wait, the same for each
-- until it has what it waits for (max-min): an unlucky caller's share waits for it, a silent one's goes back.
--
-- Dividing costs time for each member, so with many of them it is done twice an interval, and the calls between take what their account has
-- by then. The more members there are, the longer the interval that each is told, and the more the bucket holds.
--
-- A call that is repeated after a lost answer may waste permits; it never gives out more than the rate. All times are of this server, and
-- every comparison survives a jump of its clock: a time in the future is treated as the present.
--
-- A refusal that means the whole project halves the level of the limit, once a second at most and once per Retry-After; ten seconds of quiet
-- after it, the level rises by a twentieth per second. A limit without a rate is held at half of what went out until it has
-- risen again. A ramp opens while callers wait, and closes ten times as slowly while none does.
local INTERVAL_US = 20000 -- between two calls of a member that uses what it gets
local INTERVAL_US_PER_MEMBER = 1500 -- with many: all of them together take less than a twentieth of a core
local SETTLE_INTERVALS = 0.5 -- between two divisions among more than ...
local DIVIDED_AT_EACH_CALL_MAX = 8 -- ... so many members
local BUCKET_US = 40000 -- what the bucket holds at an interval of INTERVAL_US, beside the permits in hand; more at ...
local BUCKET_INTERVALS = 1.5 -- ... longer ones
local AHEAD_INTERVALS = 0.5 -- what all members together may have in hand beyond what they use at once
local MEMBER_SILENCE_US = 200000 -- four calls of a calm member: one that is silent for so long has left; with longer intervals ...
local MEMBER_SILENCE_INTERVALS = 8 -- ... more
local MEMBERS_MAX = 256
local PAUSE_MS_MAX = 4320000 -- an hour, and the fifth that spreads it
local LEVEL_MIN = 0.01
local LEVEL_HALVING_US = 1000000
local LEVEL_QUIET_US = 10000000
local LEVEL_RISE_PER_SECOND = 0.05
local RAMP_FLOOR = 0.01 -- of the rate: single sends go at once
local RAMP_FLOOR_PER_SECOND = 20
local RAMP_DECAY = 10
local SLOWED_PER_SECOND_MIN = 10 -- refusals slow no route down further: some requests must find out when it is well again
local REJECTED_BYTES_MAX = 2048 -- of the rejected configurations; with more of them every caller is stopped
local SUBROUTES_MAX = 64 -- refused ones that are recorded; the loop that hears of more of them still obeys
local BUCKET_PERMITS_MIN = 1.5 -- a slow bucket holds one permit, and goes on filling while that waits to be fetched
-- A member's account: its permits, how many more it waits for, when it last called, and the digest of its name.
local CREDIT, WANT, SEEN_AT, ID = 1, 2, 3, 4
-- Each account is a field of its own, so that a call that does not divide reads and writes no other. One field lists their ids.
local ID_BYTES = 16
local ACCOUNT_FORMAT = '>ddd'
local ACCOUNT_PREFIX = 'rate_account:'

-- Returns the time that has passed since an earlier moment; none when the clock went back.
local function elapsed(now, before)
    return math.max(0, now - before)
end

-- Moves the level by the caller's refusals and by the quiet since; returns for how long the limit still gives out nothing.
local function update_level(now, state, refusals, pause_us, passed)
    local left = pause_left(now, state)
    if refusals > 0 then
        if left == 0 and (not state.halved_at or now < state.halved_at or now - state.halved_at >= LEVEL_HALVING_US) then
            if state.level == 1 then
                state.found = math.max(SLOWED_PER_SECOND_MIN, state.seen)
            end
            state.level = math.max(LEVEL_MIN, state.level * 0.5)
            state.halved_at = now
        end
        state.refused_at = now
    elseif state.level < 1 then
        if not state.refused_at or now < state.refused_at then
            state.refused_at = now
        end
        local quiet_from = state.refused_at + LEVEL_QUIET_US
        if state.pause_for and state.pause_at + state.pause_for + LEVEL_QUIET_US > quiet_from then
            quiet_from = state.pause_at + state.pause_for + LEVEL_QUIET_US
        end
        local quiet = math.min(passed, math.max(0, now - quiet_from))
        state.level = math.min(1, state.level + quiet / 1000000 * LEVEL_RISE_PER_SECOND)
    end
    if pause_us > left then
        state.pause_at, state.pause_for = now, pause_us
        return pause_us
    end
    return left
end

-- Returns what flows in per second now; nil for no limit.
local function current_rate(now, state, base, ramp_us, passed)
    if base == 0 then
        if state.level == 1 then
            return nil
        end
        base = state.found
    end
    local rate = math.max(base * state.level, math.min(base, SLOWED_PER_SECOND_MIN))
    if ramp_us > 0 then
        if state.unmet_at and elapsed(now, state.unmet_at) <= MEMBER_SILENCE_US then
            state.ramp = math.min(1, state.ramp + math.min(passed, MEMBER_SILENCE_US) / ramp_us)
        else
            state.ramp = math.max(0, state.ramp - passed / ramp_us / RAMP_DECAY)
        end
        local floor = math.min(rate, math.max(RAMP_FLOOR_PER_SECOND, rate * RAMP_FLOOR))
        rate = floor + (rate - floor) * state.ramp
    end
    return rate
end

local function interval_us(count)
    return math.max(INTERVAL_US, count * INTERVAL_US_PER_MEMBER)
end

-- Lets the time since the last filling flow in, up to what the bucket holds; what is too much for a lower rate flows out.
local function fill_bucket(now, state, members, rate)
    local bucket_us = math.max(BUCKET_US, interval_us(#members) * BUCKET_INTERVALS)
    local capacity = math.max(BUCKET_PERMITS_MIN, rate * bucket_us / 1000000)
    local passed = elapsed(now, state.filled_at)
    state.filled_at = now
    local total = state.pool
    for _, member in ipairs(members) do
        total = total + member[CREDIT]
    end
    if total > capacity then
        state.pool = state.pool * capacity / total
        for _, member in ipairs(members) do
            member[CREDIT] = member[CREDIT] * capacity / total
        end
    else
        state.pool = state.pool + math.min(rate * passed / 1000000, capacity - total)
    end
end

-- Divides the pool among the members that wait: the same for each, until it has what it waits for.
local function divide(state, members)
    local waiting = {}
    for _, member in ipairs(members) do
        if member[WANT] > member[CREDIT] then
            waiting[#waiting + 1] = member
        end
    end
    while #waiting > 0 and state.pool > 0 do
        local share, left = state.pool / #waiting, {}
        for _, member in ipairs(waiting) do
            local missing = member[WANT] - member[CREDIT]
            local given = math.min(share, missing)
            member[CREDIT] = member[CREDIT] + given
            state.pool = state.pool - given
            if missing > share then
                left[#left + 1] = member
            end
        end
        if #left == #waiting then
            return
        end
        waiting = left
    end
end

-- Counts the permits that are there, and sets how much a member must have whose turn it is to take one that is spread over several accounts:
-- most of all that wait, or with many of them, not less than their mean, since that member may not call before the next division.
local function sum_up(state, members)
    local waiting, theirs, most = 0, 0, 0
    state.total = state.pool
    for _, member in ipairs(members) do
        state.total = state.total + member[CREDIT]
        if member[WANT] >= 1 then
            waiting, theirs, most = waiting + 1, theirs + member[CREDIT], math.max(most, member[CREDIT])
        end
    end
    state.turn = #members > DIVIDED_AT_EACH_CALL_MAX and theirs / math.max(1, waiting) or most
end

-- Takes whole permits off the member's account and returns how many. When a permit is there but spread over several accounts, it goes to
-- a member that has waited long, which owes the rest.
local function take_permits(state, me)
    local permits = math.min(me[WANT], math.max(0, math.floor(me[CREDIT] + 0.000001)))
    if permits == 0 and me[WANT] >= 1 and state.total >= 0.999999 and me[CREDIT] >= state.turn then
        permits = 1
    end
    me[CREDIT] = me[CREDIT] - permits
    me[WANT] = me[WANT] - permits
    state.total = state.total - permits
    return permits
end

-- Sets what the caller waits for; what it has beyond goes back.
local function set_want(state, me, want)
    me[WANT] = want
    if me[CREDIT] > want then
        state.pool = state.pool + me[CREDIT] - want
        me[CREDIT] = want
    end
end

local function read_account(text, id)
    local credit, want, seen_at = struct.unpack(ACCOUNT_FORMAT, text)
    return {credit, want, seen_at, id}
end

local function write_account(fields, member)
    fields[#fields + 1] = ACCOUNT_PREFIX .. member[ID]
    fields[#fields + 1] = struct.pack(ACCOUNT_FORMAT, member[CREDIT], member[WANT], member[SEEN_AT])
end

-- Reads all accounts, and removes those of silent members. Returns them and the caller's, which is nil when there is no room for another.
local function read_accounts(key, now, state, own)
    local ids, names = redis.call('HGET', key, 'rate_members') or '', {}
    for place = 1, #ids, ID_BYTES do
        names[#names + 1] = ACCOUNT_PREFIX .. string.sub(ids, place, place + ID_BYTES - 1)
    end
    local texts = #names > 0 and redis.call('HMGET', key, unpack(names)) or {}
    local silence_us = math.max(MEMBER_SILENCE_US, interval_us(#names) * MEMBER_SILENCE_INTERVALS)
    local members, silent, me = {}, {}, nil
    for index, text in ipairs(texts) do
        local member = read_account(text, string.sub(names[index], #ACCOUNT_PREFIX + 1))
        if member[ID] == own then
            me = member
        elseif now < member[SEEN_AT] or now - member[SEEN_AT] > silence_us then
            state.pool = state.pool + member[CREDIT]
            silent[#silent + 1] = names[index]
            member = nil
        end
        members[#members + 1] = member
    end
    if not me and #members < MEMBERS_MAX then
        me = {0, 0, now, own}
        members[#members + 1] = me
    end
    if #silent > 0 then
        redis.call('HDEL', key, unpack(silent))
    end
    if #silent > 0 or #members ~= #names then
        local known = {}
        for index, member in ipairs(members) do
            known[index] = member[ID]
        end
        redis.call('HSET', key, 'rate_members', table.concat(known))
    end
    state.members, state.settled_at = #members, now
    return members, me
end

local function load_state(key, now, id)
    local known = redis.call('HMGET', key, 'rate_limit', ACCOUNT_PREFIX .. id)
    if not known[1] then
        -- The bucket begins full.
        local state = {at = now, pool = 0, members = 0, level = 1, seen = 0, ramp = 0, total = 0, turn = 0}
        state.settled_at, state.filled_at = now, now - 3600000000
        return state, nil, 3600000000
    end
    local state = cmsgpack.unpack(known[1])
    local passed = elapsed(now, state.at)
    state.at = now
    return state, known[2], passed
end

-- Returns whether the caller is stopped: by an operator or the guard with any configuration, else with a rejected one.
local function is_stopped(paused, rejected, fingerprint)
    if not paused or paused ~= 'configuration' and paused ~= 'credential' or fingerprint == '' then
        return paused
    end
    rejected = rejected or ''
    return #rejected >= REJECTED_BYTES_MAX or string.find(rejected, fingerprint .. ':', 1, true)
end

-- Records what a caller was told of subroutes, and returns the names of the refused ones, sorted. One that nobody has asked about for
-- twice the time after which its refused messages ask again is forgotten: there are none left.
local function update_subroutes(key, now, refused, accepted)
    local faults = subroute_faults(key, now)
    if #refused == 0 and #accepted == 0 then
        return faults.names
    end
    for index = 1, #refused, 3 do
        local name, word, wait = refused[index], refused[index + 1], tonumber(refused[index + 2])
        if not faults.words[name] and #faults.names < SUBROUTES_MAX then
            faults.names[#faults.names + 1] = name
        end
        faults.words[name], faults.ends[name] = word, math.max(faults.ends[name] or 0, now + 2 * wait)
    end
    for _, name in ipairs(accepted) do
        faults.words[name] = nil
    end
    table.sort(faults.names)
    local names, lines = {}, {}
    for _, name in ipairs(faults.names) do
        if faults.words[name] then
            names[#names + 1] = name
            lines[#lines + 1] = name .. '\t' .. digits(faults.ends[name]) .. '\t' .. faults.words[name] .. '\n'
        end
    end
    if #names == 0 then
        redis.call('HDEL', key, 'subroute_faults')
    else
        redis.call('HSET', key, 'subroute_faults', table.concat(lines))
    end
    return names
end

-- Gives a member of a rate limit permits to send.
-- KEYS: 1 {q}route:<route> or {q}send_rate:<send>
-- Returns: {permits (-1 no limit), 1 paused or 0, ms until the route may go on (0 now), rate per second now (-1 no limit),
--           level in millionths, ms between two calls, then the names of the subroutes that the provider refuses}
register_function{
    name = 'apus2_rate_limit',
    flags = {'allow-oom'},
    required = 1,
    run = function(
        keys,
        member,
        rate_per_second, -- 0: no limit
        ramp_ms, -- in which the rate is reached after a long quiet; 0: at once
        use, -- permits that would be used now
        ahead, -- permits for the time until the next call
        held, -- permits in hand
        used, -- permits, since the last call
        refusals, -- that meant the whole project, since the last call
        pause_ms, -- to stop for, as a provider asked; 0: go on
        retention_ms, -- after which the limit is forgotten; 0: never
        fault, -- the provider's word for what it rejects of our configuration: stops the route until it is restored
        fault_kind, -- or 'credential'
        fingerprint, -- of the caller's configuration; '': unknown. A fault stops only callers with the rejected configuration
        third_party_auth_error, -- the provider's word, noted for operators; '-': over; '': no news
        connection_fault, -- why the provider cannot be reached, noted for operators; '-': over; '': no news
        refused_subroutes, -- since the last call: names, each with the provider's word, without tabs or line ends, and the ms until it is asked again
        accepted_subroutes, -- names of those that the provider accepts again
        at_us -- microseconds; absent: this server's time
    )
        rate_per_second = rate_per_second or 0
        ramp_ms = ramp_ms or 0
        use = use or 0
        ahead = ahead or 0
        held = held or 0
        used = used or 0
        refusals = refusals or 0
        pause_ms = pause_ms or 0
        retention_ms = retention_ms or 0
        fault = fault or ''
        fault_kind = fault_kind or 'configuration'
        fingerprint = fingerprint or ''
        third_party_auth_error = third_party_auth_error or ''
        connection_fault = connection_fault or ''
        refused_subroutes = refused_subroutes or {}
        accepted_subroutes = accepted_subroutes or {}
        local key, now = keys[1], at_us
        if not now then
            local time = redis.call('TIME')
            now = tonumber(time[1]) * 1000000 + tonumber(time[2])
        end
        if fault ~= '' then
            if redis.call('HSETNX', key, 'paused', fault_kind) == 1 then
                redis.call('HSET', key, 'pause_reason', fault)
            end
            local rejected = redis.call('HGET', key, 'rejected_configurations') or ''
            if fingerprint ~= '' and not is_stopped('configuration', rejected, fingerprint) then
                redis.call('HSET', key, 'rejected_configurations', rejected .. fingerprint .. ':' .. fault_kind .. ',')
            end
        end
        if third_party_auth_error == '-' then
            redis.call('HDEL', key, 'third_party_auth_error')
        elseif third_party_auth_error ~= '' then
            redis.call('HSET', key, 'third_party_auth_error', third_party_auth_error)
        end
        if connection_fault == '-' then
            redis.call('HDEL', key, 'connection_fault', 'connection_fault_at')
        elseif connection_fault ~= '' then
            redis.call('HSET', key, 'connection_fault', connection_fault, 'connection_fault_at', math.floor(now / 1000))
        end
        local subroutes = update_subroutes(key, math.floor(now / 1000), refused_subroutes, accepted_subroutes)
        local control = redis.call('HMGET', key, 'paused', 'rate', 'rejected_configurations')
        local is_paused = is_stopped(control[1], control[3], fingerprint)
        local id = string.sub(redis.sha1hex(member), 1, ID_BYTES)
        local state, account, passed = load_state(key, now, id)
        -- A leaky sum with a second's memory: what goes out per second.
        state.seen = state.seen * math.exp(-passed / 1000000) + used
        local pause = update_level(now, state, refusals, math.min(pause_ms, PAUSE_MS_MAX) * 1000, passed)
        local rate = current_rate(now, state, tonumber(control[2] or rate_per_second), ramp_ms * 1000, passed)
        local is_held = is_paused or pause > 0
        local members, me
        if account and state.members > DIVIDED_AT_EACH_CALL_MAX and now >= state.settled_at
            and now - state.settled_at < interval_us(state.members) * SETTLE_INTERVALS
        then
            me = read_account(account, id)
        else
            members, me = read_accounts(key, now, state, id)
        end
        local permits, interval = 0, interval_us(state.members)
        if rate and me then
            if members then
                fill_bucket(now, state, members, rate)
            end
            ahead = math.min(ahead, math.floor(rate * interval * AHEAD_INTERVALS / 1000000 / state.members))
            local missing = math.max(0, use - held)
            set_want(state, me, is_held and 0 or missing + math.max(0, ahead - math.max(0, held - use)))
            if members then
                divide(state, members)
                sum_up(state, members)
            end
            permits = take_permits(state, me)
            if permits < missing and not is_held then
                state.unmet_at = now
            end
        elseif me and not is_held then
            permits = -1
        end
        if me then
            me[SEEN_AT] = now
        end
        local fields = {'rate_limit', cmsgpack.pack(state), 'configured_rate', rate_per_second}
        for _, member in ipairs(members or {me}) do
            write_account(fields, member)
        end
        redis.call('HSET', key, unpack(fields))
        if retention_ms > 0 then
            redis.call('PEXPIRE', key, retention_ms)
        end
        local answer = {permits, is_paused and 1 or 0, math.ceil(pause / 1000), rate and math.floor(rate) or -1,
            math.floor(state.level * 1000000), math.floor(interval / 1000)}
        for _, name in ipairs(subroutes) do
            answer[#answer + 1] = name
        end
        return answer
    end,
}
