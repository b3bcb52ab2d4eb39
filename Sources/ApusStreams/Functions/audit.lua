-- This function keeps the trails of what operators did, and of what was done with apps' keys.
local AUDIT_ENTRIES_MAX = 50000
local AUDIT_KEPT_MS = 31536000000 -- 365 days

-- Appends an entry to the trail, and removes those that are too old or too many.
-- KEYS: 1 apus:audit · apus:audit:keys
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
        local trail = keys[1]
        local entry = redis.call('XADD', trail, '*', 'actor', actor, 'source', source, 'action', action, 'app', app,
            'object', object, 'detail', detail)
        redis.call('XTRIM', trail, 'MAXLEN', AUDIT_ENTRIES_MAX)
        redis.call('XTRIM', trail, 'MINID', digits(math.max(0, written_at(entry) - AUDIT_KEPT_MS)))
        return entry
    end,
}
