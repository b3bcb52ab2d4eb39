extension RedisModel {
    static let keyCommands: [ModelCommand] = [
        ModelCommand("DEL", .atLeast(2), .write) { model, arguments in model.delete(arguments.dropFirst()) },
        ModelCommand("UNLINK", .atLeast(2), .write) { model, arguments in model.delete(arguments.dropFirst()) },
        ModelCommand("EXISTS", .atLeast(2)) { model, arguments in
            .count(arguments.dropFirst().count { model.exists($0) })
        },
        ModelCommand("TYPE", .exactly(2)) { model, arguments in
            .status(model.entry(arguments[1])?.value.typeName ?? "none")
        },
        ModelCommand("PEXPIRE", .atLeast(3), .write) { model, arguments throws(CommandFault) in
            try model.expire(arguments, unit: 1)
        },
        ModelCommand("EXPIRE", .atLeast(3), .write) { model, arguments throws(CommandFault) in
            try model.expire(arguments, unit: 1_000)
        },
        ModelCommand("PTTL", .exactly(2)) { model, arguments in .integer(model.timeToLive(arguments[1], unit: 1)) },
        ModelCommand("TTL", .exactly(2)) { model, arguments in .integer(model.timeToLive(arguments[1], unit: 1_000)) },
        ModelCommand("PERSIST", .exactly(2), .write) { model, arguments in
            let hadEnd = model.entry(arguments[1])?.expiresAt != nil
            model.database.entries[ByteKey(arguments[1])]?.expiresAt = nil
            return .flag(hadEnd)
        },
        ModelCommand("RENAME", .exactly(3), .write) { model, arguments throws(CommandFault) in
            guard let entry = model.entry(arguments[1]) else { throw .noKey }
            model.database.entries[ByteKey(arguments[1])] = nil
            model.database.entries[ByteKey(arguments[2])] = entry
            return .ok
        },
        ModelCommand("SCAN", .atLeast(2)) { model, arguments throws(CommandFault) in try model.scan(arguments) },
        ModelCommand("KEYS", .exactly(2)) { model, arguments in
            .array(model.keys.filter { matches(arguments[1][...], $0[...]) }.map { .bulk($0) })
        },
        ModelCommand("DBSIZE", .exactly(1)) { model, _ in .count(model.keys.count) },
        ModelCommand("FLUSHALL", .atLeast(1), .write) { model, _ in
            model.database = Database()
            model.noteChange()
            return .ok
        },
        ModelCommand("MEMORY", .atLeast(2)) { model, arguments throws(CommandFault) in
            guard upper(arguments[1]) == "USAGE", arguments.count > 2 else { throw .syntax }
            return model.entry(arguments[2]).map { .count($0.value.byteCount + arguments[2].count + 64) } ?? .null
        },
    ]

    /// The keys that have not expired, sorted.
    package var keys: [Bytes] {
        self.unsortedKeys().sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// Returns the keys that are there at a time and that are meant, sorted.
    ///
    /// - Parameter now: the server's clock in µs since 1970.
    package func keys(now: Int64, where isMeant: (Bytes) -> Bool) -> [Bytes] {
        self.now = now
        return self.unsortedKeys().filter(isMeant).sorted { $0.lexicographicallyPrecedes($1) }
    }

    private func delete(_ keys: ArraySlice<Bytes>) -> ModelReply {
        self.noteChange()
        var count = 0
        for key in keys where self.exists(key) {
            self.database.entries[ByteKey(key)] = nil
            count += 1
        }
        return .count(count)
    }

    private func expire(_ arguments: [Bytes], unit: Int64) throws(CommandFault) -> ModelReply {
        var conditions: Set<String> = []
        for option in arguments[3...] {
            guard ["NX", "XX", "GT", "LT"].contains(upper(option)) else {
                throw CommandFault("ERR Unsupported option \(String(decoding: option, as: UTF8.self))")
            }
            conditions.insert(upper(option))
        }
        if conditions.contains("NX"), conditions.count > 1 {
            throw CommandFault("ERR NX and XX, GT or LT options at the same time are not compatible")
        }
        if conditions.isSuperset(of: ["GT", "LT"]) {
            throw CommandFault("ERR GT and LT options at the same time are not compatible")
        }
        let (product, overflows) = try integer(arguments[2]).multipliedReportingOverflow(by: unit)
        let invalid = CommandFault("ERR invalid expire time in '\(upper(arguments[0]).lowercased())' command")
        let (end, isTooLate) = product.addingReportingOverflow(self.nowMilliseconds)
        guard !overflows, !isTooLate else { throw invalid }
        guard let entry = self.entry(arguments[1]) else { return .integer(0) }
        let former = entry.expiresAt
        // No end counts as an infinite one.
        if conditions.contains("NX"), former != nil { return .integer(0) }
        if conditions.contains("XX"), former == nil { return .integer(0) }
        if conditions.contains("GT"), former.map({ end <= $0 }) ?? true { return .integer(0) }
        if conditions.contains("LT"), former.map({ end >= $0 }) ?? false { return .integer(0) }
        if end <= self.nowMilliseconds {
            self.database.entries[ByteKey(arguments[1])] = nil
        } else {
            self.database.entries[ByteKey(arguments[1])]?.expiresAt = end
        }
        return .integer(1)
    }

    private func timeToLive(_ key: Bytes, unit: Int64) -> Int64 {
        guard let entry = self.entry(key) else { return -2 }
        guard let end = entry.expiresAt else { return -1 }
        return (end - self.nowMilliseconds + unit / 2) / unit
    }

    private func scan(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        let options = try ScanOptions(arguments, cursorAt: 1, allowsType: true)
        let found = self.keys.filter { key in
            options.allows(key) && (options.type == nil || self.entry(key)?.value.typeName == options.type)
        }
        return ScanOptions.reply(found.map { .bulk($0) })
    }
}

/// The options of `SCAN` and its kin.
struct ScanOptions {
    var pattern: Bytes?
    var type: String?

    init(_ arguments: [Bytes], cursorAt place: Int, allowsType: Bool = false) throws(CommandFault) {
        guard UInt64(String(decoding: arguments[place], as: UTF8.self)) != nil else {
            throw CommandFault("ERR invalid cursor")
        }
        var rest = arguments[(place + 1)...]
        while let option = rest.popFirst() {
            guard let value = rest.popFirst() else { throw .syntax }
            switch upper(option) {
            case "COUNT": guard try integer(value) >= 1 else { throw .syntax }
            case "MATCH": self.pattern = value
            case "TYPE" where allowsType: self.type = String(decoding: value, as: UTF8.self).lowercased()
            default: throw .syntax
            }
        }
    }

    func allows(_ name: Bytes) -> Bool { self.pattern.map { matches($0[...], name[...]) } ?? true }

    /// Returns the only page.
    static func reply(_ elements: [ModelReply]) -> ModelReply { .array([.text("0"), .array(elements)]) }
}

extension RedisModel.Value {
    var typeName: String {
        switch self {
        case .string: "string"
        case .list: "list"
        case .hash: "hash"
        case .set: "set"
        case .sortedSet: "zset"
        case .stream: "stream"
        }
    }

    /// The bytes of the content, without what Redis needs to find it.
    var byteCount: Int {
        switch self {
        case .string(let bytes): bytes.count
        case .list(let elements): elements.reduce(0) { $0 + $1.count }
        case .hash(let fields): fields.elements.reduce(0) { $0 + $1.key.count + $1.value.count }
        case .set(let members): members.keys.reduce(0) { $0 + $1.count }
        case .sortedSet(let set): set.elements.reduce(0) { $0 + $1.member.count + 8 }
        case .stream(let stream):
            stream.entries.reduce(0) { $0 + 16 + $1.fields.reduce(0) { $0 + $1.count } }
        }
    }
}
