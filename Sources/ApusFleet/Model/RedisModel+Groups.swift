extension RedisModel {
    static let streamGroupCommands: [ModelCommand] = [
        ModelCommand("XGROUP", .atLeast(2), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.changeGroup(arguments)
        },
        ModelCommand("XACK", .atLeast(4), .write) { model, arguments throws(CommandFault) in
            guard try model.stream(arguments[1])?.groups.index(forKey: arguments[2]) != nil else { return .integer(0) }
            var ids: [EntryID] = []
            for argument in arguments[3...] { ids.append(try EntryID.parse(argument, missing: 0)) }
            return try model.changeGroup(arguments[1], arguments[2]) { _, group in
                var count = 0
                for id in ids {
                    guard let index = group.index(of: id) else { continue }
                    group.pending.remove(at: index)
                    count += 1
                }
                return .count(count)
            }
        },
        ModelCommand("XCLAIM", .atLeast(6), .write) { model, arguments throws(CommandFault) in
            try model.claim(arguments)
        },
        ModelCommand("XAUTOCLAIM", .atLeast(6), .write) { model, arguments throws(CommandFault) in
            try model.claimIdle(arguments)
        },
        ModelCommand("XPENDING", .atLeast(3)) { model, arguments throws(CommandFault) in
            try model.pending(arguments)
        },
        ModelCommand("XINFO", .atLeast(2)) { model, arguments throws(CommandFault) in
            try model.streamInformation(arguments)
        },
    ]

    private static func noGroup(_ key: Bytes, _ group: Bytes) -> CommandFault {
        let (key, group) = (String(decoding: key, as: UTF8.self), String(decoding: group, as: UTF8.self))
        return CommandFault("NOGROUP No such key '\(key)' or consumer group '\(group)'")
    }

    /// Changes a group that must be there.
    private func changeGroup<Result>(
        _ key: Bytes,
        _ name: Bytes,
        _ body: (inout ModelStream, inout ModelStream.Group) throws(CommandFault) -> Result,
    ) throws(CommandFault) -> Result {
        guard let place = try self.stream(key)?.groups.index(forKey: name) else { throw Self.noGroup(key, name) }
        return try self.change(key, missing: ModelStream()) { stream throws(CommandFault) in
            var group = stream.groups.values[place]
            // The group has one owner while it changes, so that its lists are not copied.
            stream.groups.values[place] = ModelStream.Group(lastDelivered: .zero)
            defer { stream.groups.values[place] = group }
            return try body(&stream, &group)
        }
    }

    private func changeGroup(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        let subcommand = upper(arguments[1])
        let counts = ["CREATE": 5...8, "SETID": 5...7, "DESTROY": 4...4, "CREATECONSUMER": 5...5, "DELCONSUMER": 5...5]
        guard let allowed = counts[subcommand] else {
            let name = String(decoding: arguments[1], as: UTF8.self)
            throw CommandFault("ERR unknown subcommand '\(name)'. Try XGROUP HELP.")
        }
        guard allowed.contains(arguments.count) else { throw RedisModel.arity("xgroup|\(subcommand)") }
        let (key, name) = (arguments[2], arguments[3])
        let createsStream = arguments.dropFirst(5).contains { upper($0) == "MKSTREAM" }
        let found = try self.stream(key)
        guard found != nil || (subcommand == "CREATE" && createsStream) else {
            throw CommandFault(
                "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."
            )
        }
        if subcommand != "CREATE", subcommand != "DESTROY", found?.groups[name] == nil {
            let (key, name) = (String(decoding: key, as: UTF8.self), String(decoding: name, as: UTF8.self))
            throw CommandFault("NOGROUP No such consumer group '\(name)' for key name '\(key)'")
        }
        let now = self.nowMilliseconds
        switch subcommand {
        case "CREATE":
            let id = arguments[4] == [0x24] ? found?.lastID ?? .zero : try EntryID.parse(arguments[4], missing: 0)
            return try self.change(key, missing: ModelStream()) { stream throws(CommandFault) in
                guard stream.groups[name] == nil else {
                    throw CommandFault("BUSYGROUP Consumer Group name already exists")
                }
                stream.groups[name] = ModelStream.Group(lastDelivered: id)
                return .ok
            }
        case "SETID":
            let id = arguments[4] == [0x24] ? found?.lastID ?? .zero : try EntryID.parse(arguments[4], missing: 0)
            return try self.changeGroup(key, name) { _, group in
                group.lastDelivered = id
                return .ok
            }
        case "DESTROY":
            return try self.change(key, missing: ModelStream()) { .flag($0.groups.removeValue(forKey: name) != nil) }
        case "CREATECONSUMER":
            return try self.changeGroup(key, name) { _, group in
                guard group.consumers[arguments[4]] == nil else { return .integer(0) }
                group.consumers[arguments[4]] = now
                return .integer(1)
            }
        default:
            return try self.changeGroup(key, name) { _, group in
                let before = group.pending.count
                group.pending.removeAll { $0.consumer == arguments[4] }
                group.consumers[arguments[4]] = nil
                return .count(before - group.pending.count)
            }
        }
    }

    private func claim(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        let (key, name, consumer) = (arguments[1], arguments[2], arguments[3])
        let now = self.nowMilliseconds
        guard try self.stream(key)?.groups[name] != nil else { throw Self.noGroup(key, name) }
        let fault = CommandFault("ERR Invalid min-idle-time argument for XCLAIM")
        let idleMin = max(0, try integer(arguments[4], fault))
        var place = 5
        var ids: [EntryID] = []
        while place < arguments.count {
            do throws(CommandFault) { ids.append(try EntryID.parse(arguments[place], missing: 0)) } catch { break }
            place += 1
        }
        var (deliveredAt, deliveries): (Int64, Int64?) = (now, nil)
        var (isForced, namesOnly) = (false, false)
        var lastID = EntryID.zero
        var rest = arguments[place...]
        while let option = rest.popFirst() {
            let optionName = upper(option)
            switch optionName {
            case "FORCE": isForced = true
            case "JUSTID": namesOnly = true
            case "IDLE", "TIME", "RETRYCOUNT", "LASTID":
                guard let value = rest.popFirst() else { throw Self.unrecognized(option) }
                if optionName == "LASTID" {
                    lastID = try EntryID.parse(value, missing: 0)
                    continue
                }
                let number = try integer(
                    value,
                    CommandFault("ERR Invalid \(optionName) option argument for XCLAIM"),
                )
                switch optionName {
                case "IDLE": deliveredAt = now - number
                case "TIME": deliveredAt = number
                default: deliveries = number
                }
            default: throw Self.unrecognized(option)
            }
        }
        if deliveredAt < 0 || deliveredAt > now { deliveredAt = now }
        return try self.changeGroup(key, name) { stream, group in
            group.lastDelivered = max(group.lastDelivered, lastID)
            var replies: [ModelReply] = []
            for id in ids {
                let known = group.index(of: id)
                guard let index = stream.index(of: id) else {
                    if let known { group.pending.remove(at: known) }
                    continue
                }
                guard known != nil || isForced else { continue }
                var pending =
                    known.map { group.pending[$0] }
                    ?? ModelStream.Pending(id: id, consumer: consumer, deliveredAt: now, deliveries: 1)
                if known != nil, idleMin > 0, now - pending.deliveredAt < idleMin { continue }
                group.consumers[consumer] = now
                pending.consumer = consumer
                pending.deliveredAt = deliveredAt
                if let deliveries { pending.deliveries = deliveries } else if !namesOnly { pending.deliveries += 1 }
                group.deliver(pending)
                replies.append(namesOnly ? id.reply : stream.entries[index].reply)
            }
            return .array(replies)
        }
    }

    private static func unrecognized(_ option: Bytes) -> CommandFault {
        CommandFault("ERR Unrecognized XCLAIM option '\(String(decoding: option, as: UTF8.self))'")
    }

    private func claimIdle(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        let (key, name, consumer) = (arguments[1], arguments[2], arguments[3])
        let now = self.nowMilliseconds
        let fault = CommandFault("ERR Invalid min-idle-time argument for XAUTOCLAIM")
        let idleMin = max(0, try integer(arguments[4], fault))
        let start = try Self.start(arguments[5])
        var (count, namesOnly) = (Int64(100), false)
        var rest = arguments[6...]
        while let option = rest.popFirst() {
            switch upper(option) {
            case "COUNT":
                guard let value = rest.popFirst() else { throw .syntax }
                let invalid = CommandFault("ERR COUNT must be > 0")
                count = try integer(value, invalid)
                guard count > 0 else { throw invalid }
            case "JUSTID": namesOnly = true
            default: throw .syntax
            }
        }
        return try self.changeGroup(key, name) { stream, group in
            var (claimed, deleted): ([ModelReply], [ModelReply]) = ([], [])
            var (left, attempts) = (count, count * 10)
            var next = start
            var cursor = EntryID.zero
            while true {
                let index = firstIndex(of: group.pending) { $0.id >= next }
                guard index < group.pending.count else { break }
                let id = group.pending[index].id
                guard attempts > 0, left > 0 else {
                    cursor = id
                    break
                }
                attempts -= 1
                next = id.next ?? .last
                guard let entry = stream.index(of: id) else {
                    group.pending.remove(at: index)
                    deleted.append(id.reply)
                    left -= 1
                    continue
                }
                if idleMin > 0, now - group.pending[index].deliveredAt < idleMin { continue }
                group.consumers[consumer] = now
                group.pending[index].consumer = consumer
                group.pending[index].deliveredAt = now
                if !namesOnly { group.pending[index].deliveries += 1 }
                claimed.append(namesOnly ? id.reply : stream.entries[entry].reply)
                left -= 1
            }
            return .array([cursor.reply, .array(claimed), .array(deleted)])
        }
    }

    private func pending(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        let (key, name) = (arguments[1], arguments[2])
        var (idleMin, place) = (Int64(0), 3)
        if arguments.count > 4, upper(arguments[3]) == "IDLE" {
            idleMin = try integer(arguments[4])
            place = 5
        }
        let rest = arguments[place...]
        guard place == 3 && rest.isEmpty || (3...4).contains(rest.count) else { throw .syntax }
        var range: (start: EntryID, end: EntryID, count: Int)?
        if !rest.isEmpty {
            let count = Int(clamping: max(0, try integer(arguments[place + 2])))
            range = (try Self.start(arguments[place]), try Self.end(arguments[place + 1]), count)
        }
        guard let group = try self.stream(key)?.groups[name] else { throw Self.noGroup(key, name) }
        guard let range else { return Self.summary(group) }
        let consumer = rest.count == 4 ? arguments[place + 3] : nil
        if let consumer, group.consumers[consumer] == nil { return .array([]) }
        let now = self.nowMilliseconds
        let found = group.pending.lazy.filter { pending in
            pending.id >= range.start && pending.id <= range.end && (consumer == nil || pending.consumer == consumer)
                && (idleMin == 0 || now - pending.deliveredAt >= idleMin)
        }
        return .array(
            found.prefix(range.count).map { pending in
                .array([
                    pending.id.reply, .bulk(pending.consumer), .integer(max(0, now - pending.deliveredAt)),
                    .integer(pending.deliveries),
                ])
            }
        )
    }

    private static func summary(_ group: ModelStream.Group) -> ModelReply {
        guard let first = group.pending.first, let last = group.pending.last else {
            return .array([.integer(0), .null, .null, .nullArray])
        }
        let counts = Dictionary(group.pending.map { ($0.consumer, 1) }, uniquingKeysWith: +)
        let names = counts.keys.sorted { $0.lexicographicallyPrecedes($1) }
        return .array([
            .count(group.pending.count), first.id.reply, last.id.reply,
            .array(names.map { .array([.bulk($0), .text(String(counts[$0] ?? 0))]) }),
        ])
    }

    private func streamInformation(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        let subcommand = upper(arguments[1])
        guard ["STREAM", "GROUPS", "CONSUMERS"].contains(subcommand) else {
            let name = String(decoding: arguments[1], as: UTF8.self)
            throw CommandFault("ERR unknown subcommand '\(name)'. Try XINFO HELP.")
        }
        guard arguments.count >= 3 else { throw RedisModel.arity("xinfo|\(subcommand)") }
        guard let stream = try self.stream(arguments[2]) else { throw .noKey }
        let now = self.nowMilliseconds
        switch subcommand {
        case "STREAM":
            return .array([
                .text("length"), .count(stream.entries.count), .text("last-generated-id"), stream.lastID.reply,
                .text("max-deleted-entry-id"), stream.maxDeletedID.reply, .text("entries-added"),
                .integer(stream.entriesAdded), .text("recorded-first-entry-id"),
                (stream.entries.first?.id ?? .zero).reply, .text("groups"), .count(stream.groups.count),
                .text("first-entry"), stream.entries.first?.reply ?? .null, .text("last-entry"),
                stream.entries.last?.reply ?? .null,
            ])
        case "GROUPS":
            let names = stream.groups.keys.sorted { $0.lexicographicallyPrecedes($1) }
            return .array(
                names.map { name in
                    let group = stream.groups[name] ?? ModelStream.Group(lastDelivered: .zero)
                    return .array([
                        .text("name"), .bulk(name), .text("consumers"), .count(group.consumers.count),
                        .text("pending"), .count(group.pending.count), .text("last-delivered-id"),
                        group.lastDelivered.reply,
                    ])
                }
            )
        default:
            guard arguments.count == 4 else { throw RedisModel.arity("xinfo|consumers") }
            guard let group = stream.groups[arguments[3]] else {
                let (key, name) = (
                    String(decoding: arguments[2], as: UTF8.self), String(decoding: arguments[3], as: UTF8.self)
                )
                throw CommandFault("NOGROUP No such consumer group '\(name)' for key name '\(key)'")
            }
            return .array(
                group.consumers.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map { name, seenAt in
                    .array([
                        .text("name"), .bulk(name), .text("pending"),
                        .count(group.pending.count { $0.consumer == name }), .text("idle"),
                        .integer(max(0, now - seenAt)),
                    ])
                }
            )
        }
    }
}
