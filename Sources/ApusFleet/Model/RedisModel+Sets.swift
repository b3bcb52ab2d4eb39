extension RedisModel {
    static let setCommands: [ModelCommand] = [
        ModelCommand("SADD", .atLeast(3), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.change(arguments[1], missing: StoredSet()) { set in
                let before = set.members.count
                for member in arguments[2...] { set.members[member] = () }
                return .count(set.members.count - before)
            }
        },
        ModelCommand("SREM", .atLeast(3), .write) { model, arguments throws(CommandFault) in
            try model.changeExisting(arguments[1], StoredSet.self, empty: StoredSet()) { set in
                var count = 0
                for member in arguments[2...] where set.members.remove(member) { count += 1 }
                return .count(count)
            } ?? .integer(0)
        },
        ModelCommand("SCARD", .exactly(2)) { model, arguments throws(CommandFault) in
            .count(try model.members(arguments[1]).count)
        },
        ModelCommand("SISMEMBER", .exactly(3)) { model, arguments throws(CommandFault) in
            .flag(try model.members(arguments[1]).contains(arguments[2]))
        },
        ModelCommand("SMEMBERS", .exactly(2)) { model, arguments throws(CommandFault) in
            .array(try model.members(arguments[1]).keys.map { .bulk($0) })
        },
        ModelCommand("SPOP", .exactly(2), .write) { model, arguments throws(CommandFault) in
            try model.changeExisting(arguments[1], StoredSet.self, empty: StoredSet()) { set in
                guard let member = set.members.keys.randomElement(using: &model.generator) else { return .null }
                set.members.remove(member)
                return .bulk(member)
            } ?? .null
        },
        ModelCommand("SSCAN", .atLeast(3)) { model, arguments throws(CommandFault) in
            let options = try ScanOptions(arguments, cursorAt: 2)
            return ScanOptions.reply(
                try model.members(arguments[1]).keys.filter { options.allows($0) }.map { .bulk($0) }
            )
        },
    ]

    private func members(_ key: Bytes) throws(CommandFault) -> OrderedTable<Void> {
        try self.read(key, StoredSet.self)?.members ?? OrderedTable()
    }
}
