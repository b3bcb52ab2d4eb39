extension CommandComparison {
    /// Commands whose replies belong to a server and not to its keys.
    private static let ofServers: Set<String> = ["INFO", "CONFIG", "CLUSTER", "ROLE", "COMMAND", "MEMORY"]

    /// Executes a tape again on a new model, and at the same times on the reference; compares the replies of both, then all keys.
    ///
    /// - Throws: `Divergence` with the commands before it.
    package static func replay(_ tape: [TapeEntry], on reference: ReferenceServer) async throws {
        let model = RedisModel(seed: 0)
        let again = tape.map { entry in
            TapeEntry(command: entry.repeated, now: entry.now, reply: model.execute(entry.repeated, now: entry.now))
        }
        var comparison = CommandComparison(reference, model)
        try await comparison.replay(again)
    }

    /// Repeats on the reference what the model executed, at the same times, and compares the replies; then all keys.
    ///
    /// - Throws: `Divergence` with the commands before it.
    mutating func replay(_ tape: [TapeEntry]) async throws {
        _ = try await self.reference.execute([Bytes("FLUSHALL".utf8)], now: tape.first?.now ?? Self.start)
        for entry in tape where !Self.ofServers.contains(upper(entry.command[0])) {
            self.now = entry.now
            let expected = try await self.reference.execute(entry.repeated, now: entry.now)
            try self.check(entry.repeated, expected, entry.reply)
        }
        try await self.compareKeys()
    }
}
