/// Compares the model with a real redis-server over a random sequence of commands: each reply, and all keys at the end.
package struct CommandComparison {
    /// A reply that differs.
    package struct Divergence: Error, CustomStringConvertible {
        /// The reply with what led to it.
        package let description: String
    }

    /// The time at which every sequence begins, in µs since 1970.
    package static let start: Int64 = 1_700_000_000_000_000
    /// The maximum of the last commands that a divergence lists.
    private static let shownMax = 25

    let reference: ReferenceServer
    private let model: RedisModel
    var now = Self.start
    private var history: [String] = []

    /// Begins with two empty servers.
    package init(_ reference: ReferenceServer, _ model: RedisModel) {
        self.reference = reference
        self.model = model
    }

    /// Performs a random sequence on both servers, which are emptied first.
    ///
    /// - Throws: `Divergence` with the seed and the last commands.
    package mutating func run(seed: UInt64, commands: Int) async throws {
        self.history = []
        _ = try await self.both([Bytes("FLUSHALL".utf8)])
        var generator = CommandGenerator(seed: seed)
        do {
            for _ in 0..<commands {
                let (command, step) = generator.next()
                self.now = max(Self.start - 60_000_000, self.now + step)
                try await self.compare(command)
            }
            try await self.compareKeys()
        } catch let divergence as Divergence {
            throw Divergence(description: "seed \(seed): \(divergence)")
        }
    }

    /// Performs a command on both servers and compares the replies.
    package mutating func compare(_ command: [Bytes]) async throws {
        let (expected, found) = try await self.both(command)
        try self.check(command, expected, found)
    }

    /// Compares the replies of a command.
    mutating func check(_ command: [Bytes], _ expected: ModelReply, _ found: ModelReply) throws {
        self.history.append(command.map { readable(Bytes($0.prefix(200))) }.joined(separator: " "))
        let name = upper(command[0])
        let (one, other) = (Self.normalized(expected, name), Self.normalized(found, name))
        guard one == other else {
            let before = self.history.suffix(Self.shownMax).joined(separator: "\n")
            throw Divergence(
                description: "\(self.history.last ?? ""): Redis says \(one), the model \(other)\nafter\n\(before)"
            )
        }
    }

    private func both(_ command: [Bytes]) async throws -> (expected: ModelReply, found: ModelReply) {
        (try await self.reference.execute(command, now: self.now), self.model.execute(command, now: self.now))
    }

    /// Compares every key with its type, its time to live and its value.
    mutating func compareKeys() async throws {
        try await self.compare([Bytes("KEYS".utf8), Bytes("*".utf8)])
        for key in self.model.keys {
            func command(_ words: String...) -> [Bytes] { words.map { $0 == "KEY" ? key : Bytes($0.utf8) } }
            try await self.compare(command("TYPE", "KEY"))
            try await self.compare(command("PTTL", "KEY"))
            switch self.model.entry(key)?.value {
            case .string: try await self.compare(command("GET", "KEY"))
            case .list: try await self.compare(command("LRANGE", "KEY", "0", "-1"))
            case .hash: try await self.compare(command("HGETALL", "KEY"))
            case .set: try await self.compare(command("SMEMBERS", "KEY"))
            case .sortedSet: try await self.compare(command("ZRANGE", "KEY", "0", "-1", "WITHSCORES"))
            case .stream(let stream):
                try await self.compare(command("XRANGE", "KEY", "-", "+"))
                try await self.compare(command("XINFO", "STREAM", "KEY"))
                try await self.compare(command("XINFO", "GROUPS", "KEY"))
                for group in stream.groups.keys {
                    let name = String(decoding: group, as: UTF8.self)
                    try await self.compare(command("XPENDING", "KEY", name, "-", "+", "10000"))
                    try await self.compare(command("XINFO", "CONSUMERS", "KEY", name))
                }
            case nil: break
            }
        }
    }

    private static let unordered: Set<String> = ["SMEMBERS", "KEYS", "HRANDFIELD"]
    private static let unknownFields: Set<String> = [
        "radix-tree-keys", "radix-tree-nodes", "entries-read", "lag",
    ]

    /// Returns a reply without what the model does not know, sorted where the order of Redis is that of a hash table.
    private static func normalized(_ reply: ModelReply, _ name: String) -> ModelReply {
        switch (name, reply) {
        case (_, .array(let elements)) where Self.unordered.contains(name):
            .array(elements.sorted { $0.description < $1.description })
        case ("SSCAN", .array(let elements)) where elements.count == 2:
            .array([elements[0], Self.normalized(elements[1], "SMEMBERS")])
        case ("XINFO", .array(let elements)): Self.withoutUnknown(elements)
        // A missing list and a missing value are one for readers of RESP2.
        case (_, .nullArray): .null
        case (_, .array(let elements)): .array(elements.map { Self.normalized($0, "") })
        default: reply
        }
    }

    private static func withoutUnknown(_ elements: [ModelReply]) -> ModelReply {
        var (kept, skipsNext) = ([ModelReply](), false)
        for element in elements {
            if skipsNext {
                skipsNext = false
                continue
            }
            if case .bulk(let bytes) = element, Self.unknownFields.contains(String(decoding: bytes, as: UTF8.self)) {
                skipsNext = true
                continue
            }
            kept.append(Self.normalized(element, "XINFO"))
        }
        return .array(kept)
    }
}
