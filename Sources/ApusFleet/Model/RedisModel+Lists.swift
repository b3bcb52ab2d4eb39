extension RedisModel {
    static let listCommands: [ModelCommand] = [
        ModelCommand("RPUSH", .atLeast(3), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.change(arguments[1], missing: StoredList()) { list in
                list.elements += arguments[2...]
                return .count(list.elements.count)
            }
        },
        ModelCommand("LPUSH", .atLeast(3), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            try model.change(arguments[1], missing: StoredList()) { list in
                list.elements.insert(contentsOf: arguments[2...].reversed(), at: 0)
                return .count(list.elements.count)
            }
        },
        ModelCommand("LPOP", .atLeast(2), .write) { model, arguments throws(CommandFault) in
            let fault = CommandFault("ERR value is out of range, must be positive")
            guard arguments.count <= 3 else { throw RedisModel.arity("lpop") }
            let count = arguments.count == 3 ? try integer(arguments[2], fault) : nil
            if let count, count < 0 { throw fault }
            let missing = count == nil ? ModelReply.null : .nullArray
            return try model.changeExisting(arguments[1], StoredList.self, empty: StoredList()) { list in
                guard let count else { return .bulk(list.elements.removeFirst()) }
                let taken = list.elements.prefix(Int(clamping: count)).map { ModelReply.bulk($0) }
                list.elements.removeFirst(taken.count)
                return .array(taken)
            } ?? missing
        },
        ModelCommand("LLEN", .exactly(2)) { model, arguments throws(CommandFault) in
            .count(try model.list(arguments[1]).count)
        },
        ModelCommand("LINDEX", .exactly(3)) { model, arguments throws(CommandFault) in
            let (list, index) = (try model.list(arguments[1]), try integer(arguments[2]))
            let place = index < 0 ? index + Int64(list.count) : index
            return list.indices.contains(Int(clamping: place)) ? .bulk(list[Int(place)]) : .null
        },
        ModelCommand("LSET", .exactly(4), [.write, .denyOOM]) { model, arguments throws(CommandFault) in
            guard model.exists(arguments[1]) else { throw .noKey }
            return try model.change(arguments[1], missing: StoredList()) { list throws(CommandFault) in
                let index = try integer(arguments[2])
                let place = index < 0 ? index + Int64(list.elements.count) : index
                guard list.elements.indices.contains(Int(clamping: place)) else {
                    throw CommandFault("ERR index out of range")
                }
                list.elements[Int(place)] = arguments[3]
                return .ok
            }
        },
        ModelCommand("LRANGE", .exactly(4)) { model, arguments throws(CommandFault) in
            let (first, last) = (try integer(arguments[2]), try integer(arguments[3]))
            let list = try model.list(arguments[1])
            return .array(list[indexRange(first, last, count: list.count)].map { .bulk($0) })
        },
        ModelCommand("LTRIM", .exactly(4), .write) { model, arguments throws(CommandFault) in
            let (first, last) = (try integer(arguments[2]), try integer(arguments[3]))
            _ = try model.changeExisting(arguments[1], StoredList.self, empty: StoredList()) { list in
                list.elements = Array(list.elements[indexRange(first, last, count: list.elements.count)])
            }
            return .ok
        },
        ModelCommand("LPOS", .exactly(3)) { model, arguments throws(CommandFault) in
            try model.list(arguments[1]).firstIndex(of: arguments[2]).map { .count($0) } ?? .null
        },
    ]

    private func list(_ key: Bytes) throws(CommandFault) -> [Bytes] {
        try self.read(key, StoredList.self)?.elements ?? []
    }
}
