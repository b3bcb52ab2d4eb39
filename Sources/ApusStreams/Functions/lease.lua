-- Lets one member, an event loop of a dispatcher, send a little more on a limiter: a route, or one send. A bucket that fills at the
-- rate and holds a few hundredths of a second; what flows in is divided among those who wait, the same for each until it has
-- what it waits for (max-min), on accounts: an unlucky caller's share waits for it, a silent one's goes back.
--
-- A call repeated after a lost answer may waste permits; it never gives out more than the rate. All times are of this server, and every
-- comparison survives a jump of its clock: what lies ahead of now began now.
--
-- Whole fleet: a refusal that means the project halves the level, once a second at most and once per Retry-After; ten seconds of quiet
-- after it, and the level rises by a twentieth per second. A limiter without a rate is held at half of what went out until it has
-- risen again. A ramp opens while callers wait, and closes ten times as slowly while none does.
--
-- KEYS: 1 {q}route:<route> or {q}pace:<send>
-- ARGV: 1 member, 2 rate per second (0 none), 3 ms in which the rate is reached after a long quiet (0 at once), 4 permits that would be used
--       now, 5 permits for the time until the next call, 6 permits in hand, 7 permits used since the last call,
--       8 refusals that meant the whole project since the last call, 9 ms to stop for ('0' go on), 10 ms after which the limiter is
--       forgotten ('0' never), 11 the time in microseconds ('' this server's), 12 what the provider calls wrong with our set-up: stops
--       the route until it is mended ('' nothing), 13 what the provider's own partner calls wrong: only noted ('-' nothing
--       any more, '' no news), 14 of what kind 12 is: 'fault' or 'credential', 15 the caller's set-up ('' not told): who is set
--       up otherwise than those whose set-up was called wrong is not stopped
-- Returns: {permits (-1 no limit), 1 paused or 0, ms until the route may go on (0 now), rate per second now (-1 no limit),
--           level in millionths}
local LEASE_BURST_US = 40000 -- what the bucket holds, beside the permits in hand
local LEASE_AHEAD_US = 10000 -- what all members together may have in hand beyond what they use at once
local LEASE_SILENCE_US = 200000 -- four beats: a member that is silent for so long has left
local LEASE_MEMBERS_MAX = 256
local LEASE_CUT_MS_MAX = 4320000 -- an hour, and the fifth that spreads it
local LEASE_LEVEL_MIN = 0.01
local LEASE_HALVING_US = 1000000
local LEASE_QUIET_US = 10000000
local LEASE_RISE_PER_SECOND = 0.05
local LEASE_RAMP_FLOOR = 0.01 -- of the rate: single sends go at once
local LEASE_RAMP_FLOOR_PER_SECOND = 20
local LEASE_RAMP_DECAY = 10
local LEASE_SLOWED_PER_SECOND_MIN = 10 -- refusals slow no route down further: somebody must find out when it is well again
local LEASE_REFUSED_BYTES_MAX = 1024 -- of the set-ups that were called wrong; with more of them everybody is stopped
local LEASE_PERMITS_MIN = 1.5 -- a slow bucket holds one permit, and goes on filling while it waits to be fetched
-- What a member's account holds: permits, how many more it waits for, when it was heard.
local CREDIT, WANT, HEARD = 1, 2, 3

-- The time that has passed since a moment of before; none when the clock went back.
local function lease_elapsed(now, before)
    return math.max(0, now - before)
end

-- Moves the level by what the caller has heard and by the quiet since.
local function lease_level(now, state, refusals, cut_us, passed)
    local left = cut_left(now, state)
    if refusals > 0 then
        if left == 0 and (not state.halved_at or now < state.halved_at or now - state.halved_at >= LEASE_HALVING_US) then
            if state.level == 1 then
                state.found = math.max(LEASE_SLOWED_PER_SECOND_MIN, state.seen)
            end
            state.level = math.max(LEASE_LEVEL_MIN, state.level * 0.5)
            state.halved_at = now
        end
        state.refused_at = now
    elseif state.level < 1 then
        if not state.refused_at or now < state.refused_at then
            state.refused_at = now
        end
        local quiet_from = state.refused_at + LEASE_QUIET_US
        if state.cut_for and state.cut_at + state.cut_for + LEASE_QUIET_US > quiet_from then
            quiet_from = state.cut_at + state.cut_for + LEASE_QUIET_US
        end
        local quiet = math.min(passed, math.max(0, now - quiet_from))
        state.level = math.min(1, state.level + quiet / 1000000 * LEASE_RISE_PER_SECOND)
    end
    if cut_us > left then
        state.cut_at, state.cut_for = now, cut_us
        return cut_us
    end
    return left
end

-- What flows in per second now; nil for no limit.
local function lease_rate(now, state, base, ramp_us, passed)
    if base == 0 then
        if state.level == 1 then
            return nil
        end
        base = state.found
    end
    local rate = math.max(base * state.level, math.min(base, LEASE_SLOWED_PER_SECOND_MIN))
    if ramp_us > 0 then
        if state.unmet_at and lease_elapsed(now, state.unmet_at) <= LEASE_SILENCE_US then
            state.ramp = math.min(1, state.ramp + math.min(passed, LEASE_SILENCE_US) / ramp_us)
        else
            state.ramp = math.max(0, state.ramp - passed / ramp_us / LEASE_RAMP_DECAY)
        end
        local floor = math.min(rate, math.max(LEASE_RAMP_FLOOR_PER_SECOND, rate * LEASE_RAMP_FLOOR))
        rate = floor + (rate - floor) * state.ramp
    end
    return rate
end

-- Lets the time that has passed flow in, up to what the bucket holds; what is too much for a lower rate flows out.
local function lease_fill(state, rate, passed)
    local capacity = math.max(LEASE_PERMITS_MIN, rate * LEASE_BURST_US / 1000000)
    local total = state.pool
    for _, member in pairs(state.members) do
        total = total + member[CREDIT]
    end
    if total > capacity then
        state.pool = state.pool * capacity / total
        for _, member in pairs(state.members) do
            member[CREDIT] = member[CREDIT] * capacity / total
        end
    else
        state.pool = state.pool + math.min(rate * passed / 1000000, capacity - total)
    end
end

-- Divides what is in the pool among those who wait: the same for each, until it has what it waits for.
local function lease_divide(state)
    for _ = 1, LEASE_MEMBERS_MAX do
        local waiting = {}
        for _, member in pairs(state.members) do
            if member[WANT] > member[CREDIT] then
                waiting[#waiting + 1] = member
            end
        end
        if #waiting == 0 or state.pool <= 0 then
            return
        end
        local share = state.pool / #waiting
        for _, member in ipairs(waiting) do
            local given = math.min(share, member[WANT] - member[CREDIT])
            member[CREDIT] = member[CREDIT] + given
            state.pool = state.pool - given
        end
    end
end

-- Takes whole permits off the member's account. When a permit is there but spread over several accounts, it goes to the one who has
-- waited longest, who owes the rest.
local function lease_take(state, me)
    local total, most = state.pool, me[CREDIT]
    for _, member in pairs(state.members) do
        total = total + member[CREDIT]
        if member[WANT] >= 1 then
            most = math.max(most, member[CREDIT])
        end
    end
    local permits = math.min(me[WANT], math.max(0, math.floor(me[CREDIT] + 0.000001)))
    if permits == 0 and me[WANT] >= 1 and total >= 0.999999 and me[CREDIT] >= most then
        permits = 1
    end
    me[CREDIT] = me[CREDIT] - permits
    me[WANT] = me[WANT] - permits
    return permits
end

-- Lets go of who is silent, and finds the caller's account; nil when there is no room for another.
local function lease_member(now, state, name)
    local count = 0
    for other, member in pairs(state.members) do
        if other ~= name and (now < member[HEARD] or now - member[HEARD] > LEASE_SILENCE_US) then
            state.pool = state.pool + member[CREDIT]
            state.members[other] = nil
        else
            count = count + 1
        end
    end
    local me = state.members[name]
    if not me then
        if count >= LEASE_MEMBERS_MAX then
            return nil
        end
        me = {0, 0, now}
        state.members[name] = me
        count = count + 1
    end
    me[HEARD] = now
    return me, count
end

local function lease_load(key, now)
    local known = redis.call('HGET', key, 'lease')
    if not known then
        -- The bucket begins full.
        return {at = now, pool = 0, members = {}, level = 1, seen = 0, ramp = 0}, 3600000000
    end
    local state = cmsgpack.unpack(known)
    local passed = lease_elapsed(now, state.at)
    state.at = now
    return state, passed
end

-- Whether the caller is stopped: by an operator or the guard for any set-up, else for those that were called wrong.
local function lease_paused(paused, refused, setup)
    if not paused or paused ~= 'fault' and paused ~= 'credential' or setup == '' then
        return paused
    end
    refused = refused or ''
    return #refused >= LEASE_REFUSED_BYTES_MAX or string.find(refused, setup .. ',', 1, true)
end

redis.register_function{function_name = 'apus1_lease', flags = {'allow-oom'}, callback = function(keys, args)
    local key, now = keys[1], tonumber(args[11])
    if not now then
        local time = redis.call('TIME')
        now = tonumber(time[1]) * 1000000 + tonumber(time[2])
    end
    local setup = args[15] or ''
    if (args[12] or '') ~= '' then
        if redis.call('HSETNX', key, 'paused', args[14] or 'fault') == 1 then
            redis.call('HSET', key, 'paused_for', args[12])
        end
        local refused = redis.call('HGET', key, 'refused') or ''
        if setup ~= '' and not lease_paused('fault', refused, setup) then
            redis.call('HSET', key, 'refused', refused .. setup .. ',')
        end
    end
    if args[13] == '-' then
        redis.call('HDEL', key, 'partner_fault')
    elseif (args[13] or '') ~= '' then
        redis.call('HSET', key, 'partner_fault', args[13])
    end
    local steered = redis.call('HMGET', key, 'paused', 'rate', 'refused')
    local is_paused = lease_paused(steered[1], steered[3], setup)
    local state, passed = lease_load(key, now)
    -- A leaky sum with a second's memory: what goes out per second.
    state.seen = state.seen * math.exp(-passed / 1000000) + tonumber(args[7])
    local cut = lease_level(now, state, tonumber(args[8]), math.min(tonumber(args[9]), LEASE_CUT_MS_MAX) * 1000, passed)
    local rate = lease_rate(now, state, tonumber(steered[2] or args[2]), tonumber(args[3]) * 1000, passed)
    local me, count = lease_member(now, state, args[1])
    local is_held = is_paused or cut > 0
    local permits = 0
    if rate and me then
        lease_fill(state, rate, passed)
        local use, held = tonumber(args[4]), tonumber(args[6])
        local ahead = math.min(tonumber(args[5]), math.floor(rate * LEASE_AHEAD_US / 1000000 / count))
        local missing = math.max(0, use - held)
        me[WANT] = is_held and 0 or missing + math.max(0, ahead - math.max(0, held - use))
        if me[CREDIT] > me[WANT] then
            state.pool = state.pool + me[CREDIT] - me[WANT]
            me[CREDIT] = me[WANT]
        end
        lease_divide(state)
        permits = lease_take(state, me)
        if permits < missing and not is_held then
            state.unmet_at = now
        end
    elseif me and not is_held then
        permits = -1
    end
    redis.call('HSET', key, 'lease', cmsgpack.pack(state), 'base', args[2])
    if args[10] ~= '0' then
        redis.call('PEXPIRE', key, args[10])
    end
    return {permits, is_paused and 1 or 0, math.ceil(cut / 1000), rate and math.floor(rate) or -1, math.floor(state.level * 1000000)}
end}
