-- Makes a unit's progress durable: the done bitmap, the outcomes of the newly set bits and the retries, together or not at all;
-- renews the lease and answers whether to go on, and how fast. A report that comes twice is written once: the journal begins with the
-- number of the last one. Of two who reported the same unit, as a failover can bring about, the one who is behind has lost it.
-- KEYS: 1 {q}work:<route>:<lane>, 2 {q}send:<id>
-- ARGV: 1 group, 2 consumer, 3 entry, 4 number of the report (4 bytes, big endian) and bitmap ('' nothing to write), 5 OutcomeBatch
--       ('' none), 6 what comes next: 'begin' (nothing has gone out yet; a paused send's unit is put aside) · 'continue' · 'finish' (every
--       recipient has its outcome) · 'leave' (nothing more goes out here: the unit is put aside if its send is paused, else it goes back
--       into its stream); "<that>/again" when the call is repeated after a failover, maybe behind others of the same owner,
--       7 number of retries, then per retry: due in ms, id, WorkUnit;
--       then per retry, or not at all: name of the stream that it goes to ('' this one);
--       then, if the provider blames the message: the field that it blames, the name of the ledger's count that must be missing for the
--       send to be refused on this route from now on ('' it is only noted)
-- Returns: {verdict, recipients per second (0 any), journal ('' none; 'begin' only)}; the verdict is 'running' · 'paused' · 'cancelled' ·
--          'refused' (the provider refuses the message) · 'done' (the send is complete without this unit) · 'lost' (another owns the unit or reported in this one's place, or a report
--          before this one is missing; nothing was written)
local function report_number(journal)
    return journal == '' and 0 or struct.unpack('>I4', journal)
end

redis.register_function{function_name = 'apus1_progress', flags = {'allow-oom'}, callback = function(keys, args)
    local work, state = keys[1], keys[2]
    local group, consumer, entry = args[1], args[2], args[3]
    local next_step, again = string.match(args[6], '^(%a+)(.*)$')
    local tag, name = tag_of(work), name_of(work)
    if not owns(work, group, consumer, entry) then
        return {'lost', 0, ''}
    end
    local route = string.match(name, '^work:(%d+):')
    local known = redis.call('HMGET', state, 'state', 'rate', 'refused:' .. route)
    local verdict, rate = known[1] or 'done', tonumber(known[2] or '0')
    local journal_field = name .. '/' .. entry
    local journal = redis.call('HGET', tag .. 'journal', journal_field) or ''
    local last = report_number(journal)
    local number = report_number(args[4])
    if number > last + 1 then
        -- A report is missing, as after a failover: its outcomes are not here, so its bits may not be either.
        return {'lost', 0, ''}
    end
    if number > 0 and number == last and args[4] ~= journal then
        return {'lost', 0, ''}
    end
    local ends = next_step == 'finish' or next_step == 'leave'
    if number > 0 and number < last and (again == '' or ends) then
        -- Only who repeats all that was written can be behind without another having gone on.
        return {'lost', 0, ''}
    end
    local retries = tonumber(args[7])
    local blamed = args[8 + retries * 4] or ''
    if blamed ~= '' and known[1] then
        redis.call('HSETNX', state, 'blamed:' .. route, blamed)
        local taken = args[9 + retries * 4]
        if taken ~= '' and redis.call('HEXISTS', state, taken) == 0 then
            redis.call('HSET', state, 'refused:' .. route, blamed)
            known[3] = blamed
        end
    end
    if verdict == 'running' and known[3] then
        verdict = 'refused'
    end
    local is_new = number > last
    if is_new then
        for index = 0, retries - 1 do
            -- Nobody waits for a retry of a cancelled or refused send: who reads it next closes it.
            local due = (verdict == 'cancelled' or verdict == 'refused') and '0' or args[8 + index * 3]
            local stream = args[8 + retries * 3 + index] or ''
            add_due(tag, due, args[9 + index * 3], stream == '' and name or stream, args[10 + index * 3])
        end
        if args[5] ~= '' then
            redis.call('XADD', tag .. 'outcomes', '*', 'm', args[5])
        end
        journal = args[4]
    end
    if next_step == 'finish' or (next_step == 'leave' and verdict == 'done') then
        redis.call('HDEL', tag .. 'journal', journal_field)
        done(work, group, entry)
    elseif verdict == 'paused' and (next_step == 'begin' or next_step == 'leave') then
        put_aside(work, group, entry, send_of(state), journal)
    elseif next_step == 'leave' then
        bring_back(tag, name, redis.call('XRANGE', work, entry, entry)[1][2][2], journal)
        redis.call('HDEL', tag .. 'journal', journal_field)
        done(work, group, entry)
    else
        if is_new then
            redis.call('HSET', tag .. 'journal', journal_field, journal)
        end
        renew(work, group, consumer, entry, is_new)
    end
    return {verdict, rate, next_step == 'begin' and journal or ''}
end}
