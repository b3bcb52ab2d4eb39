internal import ApusInstallation
internal import ApusRedis

/// A fault that is put into the fleet on purpose, to show that simulations find it.
package struct Mutation: Sendable {
    private enum Change {
        /// A text that is once in the functions, and the text in its place.
        case function(String, String)
        /// A setting of the dispatchers.
        case dispatcherSetting(String)
    }

    /// Its name.
    package let name: String
    private let change: Change

    private init(_ name: String, _ change: Change) {
        self.name = name
        self.change = change
    }

    /// The line that it adds to the configuration of the dispatchers.
    var dispatcherSetting: String {
        if case .dispatcherSetting(let text) = self.change { text } else { "" }
    }

    /// Loads the functions with the fault, if it is in them.
    func load(on client: RedisClient) async throws {
        guard case .function(let place, let replacement) = self.change else { return }
        let text = String(decoding: try Installation.library().text, as: UTF8.self)
        let parts = text.split(separator: place, omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            throw SimulationFailure("the place of \(self.name) is \(parts.count - 1) times in the functions")
        }
        let command = RedisCommand("FUNCTION", "LOAD", "REPLACE", .text(parts.joined(separator: replacement)))
        for endpoint in try await client.masters() { _ = try await client.send(command, to: endpoint) }
    }

    /// All of them.
    package static let all = [
        // A record is not read again before it is sent to, so that a held message reaches whoever has logged in since.
        Mutation("stranger", .dispatcherSetting("recheck_after: 600s")),
        // A dispatcher that has lost a unit may still report on it.
        Mutation(
            "unfenced-unit",
            .function(
                "local tag, name = tag_of(work), name_of(work)\n        if not owns(work, group, consumer, entry) then",
                "local tag, name = tag_of(work), name_of(work)\n        if false then"
            )
        ),
        // A dispatcher that has lost a direct send may still end it.
        Mutation(
            "unfenced-send",
            .function(
                "if not owns(mailbox, group, consumer, entry) then\n            return 0",
                "if false then\n            return 0"
            )
        ),
        // A paused send goes on.
        Mutation(
            "unpaused-send",
            .function(
                "local verdict, rate = known[1] or 'done', ",
                "local verdict, rate = known[1] == 'paused' and 'running' or known[1] or 'done', "
            )
        ),
        // A paused route goes on.
        Mutation(
            "unpaused-route",
            .function("local is_paused = is_stopped(control[1], control[3], fingerprint)", "local is_paused = false")
        ),
        // A dispatcher that takes a unit over does not learn what is done.
        Mutation(
            "no-journal",
            .function("redis.call('HSET', tag .. 'journal', journal_field, known_journal)", "local _ = known_journal")
        ),
        // A unit that a dispatcher gives back loses what is done.
        Mutation(
            "no-handover",
            .function(
                "append_with_journal(tag, name, redis.call('XRANGE', work, entry, entry)[1][2][2], known_journal)",
                "append_with_journal(tag, name, redis.call('XRANGE', work, entry, entry)[1][2][2], '')"
            )
        ),
        // Retries are forgotten.
        Mutation(
            "no-retry",
            .function("add_due(tag, due, id, retry_streams[index], retry_units[index])", "local _ = due")
        ),
        // Outcomes are lost on the way to the ledger.
        Mutation(
            "no-outcomes",
            .function(
                "if outcomes ~= '' then\n                redis.call('XADD', tag .. 'outcomes'",
                "if outcomes ~= '' and last ~= 1 then\n                redis.call('XADD', tag .. 'outcomes'"
            )
        ),
        // The same command is accepted again.
        Mutation(
            "published-twice",
            .function(
                "if key ~= '' then\n            local known_digest, known_send, _, place",
                "if false then\n            local known_digest, known_send, _, place"
            )
        ),
        // The same command goes out again from a mailbox where its publisher was not asked for its id.
        Mutation(
            "admitted-twice",
            .function(
                "if known_digest and known_origin ~= origin then\n                return {'duplicate', known_send}\n            end\n            is_known",
                "is_known"
            )
        ),
        // A unit that is taken over comes without the second half of its journal: the marks of a send at most once.
        Mutation(
            "no-marks",
            .function(
                "return {verdict, rate, next_step == 'begin' and known_journal or ''}",
                "return {verdict, rate, next_step == 'begin' and string.sub(known_journal, 1, 4 + (#known_journal - 4) / 2) or ''}"
            )
        ),
        // Entries are taken over as soon as Redis is back, before their owners could speak up.
        Mutation(
            "no-amnesty",
            .function("if now < amnesty and amnesty - now <= lease_ms then", "if now < amnesty and false then")
        ),
        // An entry counts as the one that was read whatever its message is.
        Mutation("same-id", .function("(digest == '' or string.sub", "(true or string.sub")),
        // Confirmations of replicas speak of nothing.
        Mutation("no-mark", .function("return redis.call('HINCRBY', keys[1], 'marked', 1)", "return 1")),
        // The publication of a command that is there already writes nothing that a replica could confirm.
        Mutation(
            "duplicate-unwritten",
            .function("redis.call('HSET', place, key, redis.call('HGET', place, key))", "local _ = place")
        ),
        // A user's devices are found twice.
        Mutation(
            "user-twice",
            .function(
                "answer[i] = redis.call('HGET', users.place(keys[1], digest)) or ''",
                "answer[i] = string.rep(redis.call('HGET', users.place(keys[1], digest)) or '', 2)"
            )
        ),
        // Leases of entries and times of retries stay where a clock that has gone back has left them.
        Mutation("frozen-leases", .function("if now < checked or now - checked >= lease_ms then", "if false then")),
        Mutation("frozen-retries", .function("if step < CLOCK_STEP_MIN_MS then", "if true then")),
        // Entries of a route that nobody has any more stay.
        Mutation("stranded-route", .function("elseif now - seen >= absence_ms then", "elseif false then")),
        // Registrations have no time, so an older one wins when it is carried out last.
        Mutation("older-registration", .function("return math.min(registered, now)", "return 0")),
        // An older registration that is carried out late brings a device back that was removed since.
        Mutation(
            "forgotten-removal",
            .function("if gone and registered < tonumber(gone) then return true end", "local _ = gone")
        ),
        // A user keeps the devices that somebody else has logged in on, or that are gone.
        Mutation(
            "kept-user",
            .function(
                "if string.sub(devices, i, i + users.device_bytes - 1) == device then\n                if",
                "if false then\n                if"
            )
        ),
        // A send with a rate of its own goes out faster.
        Mutation(
            "fast-pace",
            .function(
                "math.min(rate * passed / 1000000, capacity - total)",
                "math.min(3 * rate * passed / 1000000, capacity - total)"
            )
        ),
        // A scheduled send begins at once.
        Mutation(
            "early",
            .function("add_due(tag, due_ms, name .. '/plan/' .. route", "add_due(tag, 0, name .. '/plan/' .. route")
        ),
        // A device stays whose token the provider calls dead.
        Mutation(
            "unpruned",
            .function(
                "store.evict(keys[1], digest, ordinal, topics, now)\n        if forgets_history then",
                "if undo_ms > 0 then return 1 end\n        store.evict(keys[1], digest, ordinal, topics, now)\n        if forgets_history then"
            )
        ),
        // A device that a provider calls dead by mistake cannot be brought back.
        Mutation(
            "unkept",
            .function("redis.call('SET', undo.key(meta, digest), value, 'PX', keep_ms)", "local _ = value")
        ),
        // A send that kills whoever is about to send it is tried for ever.
        Mutation(
            "endless-poison",
            .function(
                "return {entry[1], message_of(entry[2]), deliveries, journal or ''}",
                "return {entry[1], message_of(entry[2]), math.min(deliveries, 2), journal or ''}"
            )
        ),
        // A recipient whose token is dead counts as reached.
        Mutation(
            "reached-dead",
            .function(
                "redis.call('HINCRBY', state, name, counts[index])",
                "redis.call('HINCRBY', state, (string.gsub(name, '/unregistered/unregistered', '/accepted/none')), counts[index])"
            )
        ),
        // A device that claims a token does not learn whose it was.
        Mutation("shared-token", .function("return others, true\n", "return {}, true\n")),
        // An id that one app has used is taken for all others.
        Mutation("shared-id", .function("return app .. '/' .. id", "return 'demo/' .. id")),
        // Devices of two apps that have the same id are one.
        Mutation(
            "shared-place",
            .function(
                "return string.sub(meta, 1, -5)",
                "return (string.gsub(string.sub(meta, 1, -5), '}other:', '}demo:'))"
            )
        ),
        // Of a user's devices only the first is found, so the others stay when the user is forgotten.
        Mutation(
            "unforgotten-device",
            .function(
                "answer[i] = redis.call('HGET', users.place(keys[1], digest)) or ''",
                "answer[i] = string.sub(redis.call('HGET', users.place(keys[1], digest)) or '', 1, 10)"
            )
        ),
    ]
}
