extension RedisModel {
    static let hashCommands: [ModelCommand] = [
        ModelCommand("HGET", .exactly(3)) { model, arguments throws(CommandFault) in
            try model.hash(arguments[1])?[arguments[2]].map { .bulk($0) } ?? .null
        },
        ModelCommand("HMGET", .atLeast(3)) { model, arguments throws(CommandFault) in
            let hash = try model.hash(arguments[1])
            return .array(arguments[2...].map { field in hash?[field].map { .bulk($0) } ?? .null })
        },
        ModelCommand("HSET", .atLeast(4), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            guard arguments.count.isMultiple(of: 2) else { throw RedisModel.arity("hset") }
            return try model.change(arguments[1], missing: StoredHash()) { hash in
                let before = hash.fields.count
                for index in stride(from: 2, to: arguments.count, by: 2) {
                    hash.fields[arguments[index]] = arguments[index + 1]
                }
                return .count(hash.fields.count - before)
            }
        },
        ModelCommand("HSETNX", .exactly(4), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.change(arguments[1], missing: StoredHash()) { hash in
                guard !hash.fields.contains(arguments[2]) else { return .integer(0) }
                hash.fields[arguments[2]] = arguments[3]
                return .integer(1)
            }
        },
        ModelCommand("HDEL", .atLeast(3), .write) { model, arguments throws(CommandFault) in
            try model.changeExisting(arguments[1], StoredHash.self, empty: StoredHash()) { hash in
                var count = 0
                for field in arguments[2...] where hash.fields.remove(field) { count += 1 }
                return .count(count)
            } ?? .integer(0)
        },
        ModelCommand("HGETALL", .exactly(2)) { model, arguments throws(CommandFault) in
            .array(try model.hash(arguments[1])?.elements.flatMap { [.bulk($0.key), .bulk($0.value)] } ?? [])
        },
        ModelCommand("HKEYS", .exactly(2)) { model, arguments throws(CommandFault) in
            .array(try model.hash(arguments[1])?.keys.map { .bulk($0) } ?? [])
        },
        ModelCommand("HVALS", .exactly(2)) { model, arguments throws(CommandFault) in
            .array(try model.hash(arguments[1])?.elements.map { .bulk($0.value) } ?? [])
        },
        ModelCommand("HLEN", .exactly(2)) { model, arguments throws(CommandFault) in
            .count(try model.hash(arguments[1])?.count ?? 0)
        },
        ModelCommand("HEXISTS", .exactly(3)) { model, arguments throws(CommandFault) in
            .flag(try model.hash(arguments[1])?.contains(arguments[2]) ?? false)
        },
        ModelCommand("HINCRBY", .exactly(4), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            let difference = try integer(arguments[3])
            let former = try integer(
                try model.hash(arguments[1])?[arguments[2]] ?? [0x30],
                CommandFault("ERR hash value is not an integer"),
            )
            let (sum, overflows) = former.addingReportingOverflow(difference)
            guard !overflows else { throw .overflow }
            return try model.change(arguments[1], missing: StoredHash()) { hash in
                hash.fields[arguments[2]] = Bytes(digitsOf: sum)
                return .integer(sum)
            }
        },
        ModelCommand("HRANDFIELD", .atLeast(2)) { model, arguments throws(CommandFault) in
            try model.randomFields(arguments)
        },
        ModelCommand("HSCAN", .atLeast(3)) { model, arguments throws(CommandFault) in
            let options = try ScanOptions(arguments, cursorAt: 2)
            let found = try model.hash(arguments[1])?.elements.filter { options.allows($0.key) } ?? []
            return ScanOptions.reply(found.flatMap { [.bulk($0.key), .bulk($0.value)] })
        },
    ]

    private func hash(_ key: Bytes) throws(CommandFault) -> OrderedTable<Bytes>? {
        try self.read(key, StoredHash.self)?.fields
    }

    private func randomFields(_ arguments: [Bytes]) throws(CommandFault) -> ModelReply {
        let hash = try self.hash(arguments[1])
        guard arguments.count > 2 else {
            return hash?.keys.randomElement(using: &self.generator).map { .bulk($0) } ?? .null
        }
        let count = try integer(arguments[2])
        let withValues = arguments.count == 4 && upper(arguments[3]) == "WITHVALUES"
        guard arguments.count == 3 || withValues else { throw .syntax }
        let fields = hash?.keys ?? []
        // A negative number may name a field twice.
        let drawn =
            count < 0
            ? (0..<Int(-count)).compactMap { _ in fields.randomElement(using: &self.generator) }
            : Array(fields.shuffled(using: &self.generator).prefix(Int(count)))
        return .array(
            drawn.flatMap { field in withValues ? [.bulk(field), .bulk(hash?[field] ?? [])] : [.bulk(field)] }
        )
    }
}
