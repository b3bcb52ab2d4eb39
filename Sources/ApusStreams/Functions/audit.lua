-- This function keeps the trail of what operators did, and for each app one of what was done with its keys and sent by commands.
local AUDIT_ENTRIES_MAX = 50000
local KEY_AUDIT_ENTRIES_MAX = 10000 -- of one app
local AUDIT_KEPT_MS = 31536000000 -- 365 days

-- Appends an entry to the trail, and removes those that are too old or too many.
-- KEYS: 1 apus:audit · that of an app, and then 2 the list of apps that have one
-- Returns: the entry's id
register_function{
    name = 'apus2_record_audit',
    flags = {'allow-oom'},
    required = 5,
    run = function(
        keys,
        actor, -- who did it
        source, -- 'cli' · 'http' · 'console'
        action, -- such as 'send.cancel'
        app, -- '': it concerns no single app
        object, -- what it was done to
        detail -- more about it
    )
        detail = detail or ''
        local trail, apps = keys[1], keys[2]
        local entry = redis.call('XADD', trail, '*', 'actor', actor, 'source', source, 'action', action, 'app', app,
            'object', object, 'detail', detail)
        local oldest = digits(math.max(0, written_at(entry) - AUDIT_KEPT_MS))
        redis.call('XTRIM', trail, 'MAXLEN', apps and KEY_AUDIT_ENTRIES_MAX or AUDIT_ENTRIES_MAX)
        redis.call('XTRIM', trail, 'MINID', oldest)
        if apps then
            redis.call('PEXPIRE', trail, AUDIT_KEPT_MS)
            redis.call('ZADD', apps, digits(written_at(entry)), app)
            redis.call('ZREMRANGEBYSCORE', apps, '-inf', oldest)
        end
        return entry
    end,
}
