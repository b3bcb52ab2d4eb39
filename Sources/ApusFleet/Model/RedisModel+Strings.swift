extension RedisModel {
    static let stringCommands: [ModelCommand] = [
        ModelCommand("GET", .exactly(2)) { model, arguments throws(CommandFault) in
            try model.string(arguments[1]).map { .bulk($0) } ?? .null
        },
        ModelCommand("MGET", .atLeast(2)) { model, arguments in
            .array(
                arguments.dropFirst().map { key in
                    guard case .string(let bytes) = model.entry(key)?.value else { return .null }
                    return .bulk(bytes)
                }
            )
        },
        ModelCommand("SET", .atLeast(3), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.set(arguments)
        },
        ModelCommand("STRLEN", .exactly(2)) { model, arguments throws(CommandFault) in
            .count(try model.string(arguments[1])?.count ?? 0)
        },
        ModelCommand("INCR", .exactly(2), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.increment(arguments[1], by: 1)
        },
        ModelCommand("INCRBY", .exactly(3), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.increment(arguments[1], by: try integer(arguments[2]))
        },
        ModelCommand("APPEND", .exactly(3), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.change(arguments[1], missing: StoredString([])) { value in
                value.bytes += arguments[2]
                return .count(value.bytes.count)
            }
        },
        ModelCommand("SETBIT", .exactly(4), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            let (index, mask) = try RedisModel.bitPlace(arguments[2])
            let fault = CommandFault("ERR bit is not an integer or out of range")
            let bit = try integer(arguments[3], fault)
            guard bit == 0 || bit == 1 else { throw fault }
            return try model.change(arguments[1], missing: StoredString([])) { value in
                if value.bytes.count <= index {
                    value.bytes += Bytes(repeating: 0, count: index + 1 - value.bytes.count)
                }
                let former = value.bytes[index] & mask != 0
                if bit == 1 { value.bytes[index] |= mask } else { value.bytes[index] &= ~mask }
                return .flag(former)
            }
        },
        ModelCommand("GETBIT", .exactly(3)) { model, arguments throws(CommandFault) in
            let (index, mask) = try RedisModel.bitPlace(arguments[2])
            let bytes = try model.string(arguments[1]) ?? []
            return .flag(index < bytes.count && bytes[index] & mask != 0)
        },
        ModelCommand("BITCOUNT", .atLeast(2)) { model, arguments throws(CommandFault) in
            guard let bytes = try model.string(arguments[1]) else { return .integer(0) }
            guard arguments.count > 2 else { return .count(bytes.reduce(0) { $0 + $1.nonzeroBitCount }) }
            guard arguments.count == 4 else { throw .syntax }
            let range = indexRange(try integer(arguments[2]), try integer(arguments[3]), count: bytes.count)
            return .count(bytes[range].reduce(0) { $0 + $1.nonzeroBitCount })
        },
    ]

    private func string(_ key: Bytes) throws(CommandFault) -> Bytes? { try self.read(key, StoredString.self)?.bytes }

    private func increment(_ key: Bytes, by difference: Int64) throws(CommandFault) -> ModelReply {
        let former = try integer(try self.string(key) ?? [0x30])
        let (sum, overflows) = former.addingReportingOverflow(difference)
        guard !overflows else { throw .overflow }
        return try self.change(key, missing: StoredString([])) { value in
            value.bytes = Bytes(digitsOf: sum)
            return .integer(sum)
        }
    }

    fileprivate static func bitPlace(_ argument: Bytes) throws(CommandFault) -> (index: Int, mask: UInt8) {
        let fault = CommandFault("ERR bit offset is not an integer or out of range")
        let offset = try integer(argument, fault)
        guard (0..<(512 * 1024 * 1024 * 8)).contains(offset) else { throw fault }
        return (Int(offset / 8), 0x80 >> UInt8(offset % 8))
    }

    private func set(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        var options: Set<String> = []
        var end: Int64?
        var rest = arguments[3...]
        while let option = rest.popFirst() {
            let name = upper(option)
            switch name {
            case "NX", "XX", "GET", "KEEPTTL": options.insert(name)
            case "EX", "PX":
                guard end == nil, let value = rest.popFirst() else { throw .syntax }
                let time = try integer(value)
                guard time > 0 else { throw CommandFault("ERR invalid expire time in 'set' command") }
                end = self.nowMilliseconds + time * (name == "EX" ? 1_000 : 1)
            default: throw .syntax
            }
        }
        if options.isSuperset(of: ["NX", "XX"]) || (end != nil && options.contains("KEEPTTL")) { throw .syntax }
        let key = arguments[1]
        let former = self.entry(key)
        var reply = ModelReply.ok
        if options.contains("GET") { reply = try self.string(key).map { .bulk($0) } ?? .null }
        if (options.contains("NX") && former != nil) || (options.contains("XX") && former == nil) {
            return options.contains("GET") ? reply : .null
        }
        if options.contains("KEEPTTL") { end = former?.expiresAt }
        self.database.entries[ByteKey(key)] = Entry(value: .string(arguments[2]), expiresAt: end)
        return reply
    }
}

/// Returns the range of a first and a last index, where negative ones count from the end.
func indexRange(_ first: Int64, _ last: Int64, count: Int) -> Range<Int> {
    let count = Int64(count)
    let start = max(0, first < 0 ? first + count : first)
    let end = min(count - 1, last < 0 ? last + count : last)
    return start > end ? 0..<0 : Int(start)..<Int(end) + 1
}
