package import ApusRedis

/// Moves slots of a Redis Cluster from one master to another while everything runs, key by key as the specification says
/// (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>, "Live reconfiguration"; `CLUSTER SETSLOT`).
///
/// A move that was interrupted is gone on with by a later one of the same slot to the same master.
package struct SlotMover: Sendable {
    /// Names the limits of a move.
    package enum Limits {
        /// The maximum bytes of memory of a key: `MIGRATE` stops both masters for as long as one key takes.
        package static let keyBytesMax: Int64 = 256 * 1_024 * 1_024
        /// The maximum number of keys of a slot whose memory is checked before the first one is moved: more are not listed. A slot has some
        /// hundreds of keys for a million devices. The rest are measured when their turn comes.
        package static let keysListedMax = RedisLimits.arrayElementsMax
        /// The maximum number of keys that one `MIGRATE` moves.
        static let keysAtOnceMax = 64
        /// The maximum bytes of memory of the keys that one `MIGRATE` moves, unless it is one key alone.
        package static let bytesAtOnceMax: Int64 = 8 * 1_024 * 1_024
        /// The time within which a `MIGRATE` must be done.
        static let migrateTimeout = Duration.seconds(60)
        /// The maximum number of times that a step is tried again after errors that pass.
        static let retriesMax = 20
        /// The pause between two tries.
        static let retryPause = Duration.milliseconds(250)
    }

    /// Reports why a slot was not moved. What has moved of it stays where it is.
    package struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// The sentence, with its cure.
        package let description: String
    }

    private let client: RedisClient
    private let username: String?
    private let password: String?
    private let keyBytesMax: Int64
    private let keysListedMax: Int

    /// Creates a mover.
    ///
    /// - Parameters:
    ///   - client: a client of the cluster, as a user who may `CLUSTER SETSLOT`, `MIGRATE` and `MEMORY USAGE`. The masters log in to each
    ///     other as the same user.
    ///   - keyBytesMax: the maximum bytes of memory of a key.
    ///   - keysListedMax: the maximum number of keys of a slot that are looked at before the first one is moved.
    package init(
        _ client: RedisClient,
        keyBytesMax: Int64 = Limits.keyBytesMax,
        keysListedMax: Int = Limits.keysListedMax,
    ) {
        precondition(keyBytesMax > 0 && (1...Limits.keysListedMax).contains(keysListedMax))
        self.client = client
        self.keyBytesMax = keyBytesMax
        self.keysListedMax = keysListedMax
        self.username = client.configuration.username
        self.password = client.configuration.password
    }

    /// Moves a slot. Returns the number of keys that were moved.
    ///
    /// - Parameters:
    ///   - source: the master that has the slot.
    ///   - target: the master that gets it.
    ///   - others: the other living masters, which are told at once.
    /// - Throws: `Failure`.
    package func move(
        _ slot: Int,
        from source: ClusterNodes.Node,
        to target: ClusterNodes.Node,
        others: [ClusterNodes.Node],
    ) async throws(Failure) -> Int {
        let wasOpen = try await self.openSlot(slot, at: source) != nil
        let isResumed = try await self.openSlot(slot, at: target) != nil
        // Such a source was replaced in the middle of a move: what it wrote since may be of keys that the target has, too.
        let mayHaveForeignKeys = isResumed && !wasOpen
        if mayHaveForeignKeys { try await self.checkForeignKeys(slot, source, target) }
        var sizes = try await self.sizes(slot, source)
        try await self.set(slot, "IMPORTING", source.id, at: target)
        try await self.set(slot, "MIGRATING", target.id, at: source)
        var moved = 0
        while true {
            let keys = try await self.keys(slot, at: source, atMost: Limits.keysAtOnceMax)
            if keys.isEmpty { break }
            // Those that were not listed, or have come since. A large one moves alone: to stop now would leave the slot in two parts, in which
            // nothing can drain.
            for key in keys where sizes[key] == nil { sizes[key] = await self.memory(of: key, at: source) }
            let batch = Self.batch(keys, sizes)
            do throws(Failure) {
                try await self.migrate(batch, slot, from: source, to: target, replacing: !mayHaveForeignKeys)
            } catch {
                guard mayHaveForeignKeys, error.description.contains("BUSYKEY") else { throw error }
                // The next run then asks again which keys are on both.
                try await self.set(slot, "STABLE", nil, at: source)
                throw Self.foreignKeys("some keys are", slot, source, target)
            }
            moved += batch.count
        }
        // The target first: a source that dies in between leaves it the owner.
        try await self.set(slot, "NODE", target.id, at: target)
        do throws(Failure) {
            try await self.set(slot, "NODE", target.id, at: source)
        } catch {
            // A master that has given away its last slot makes itself a replica of the one that got it.
            guard error.description.contains("only with masters") else { throw error }
        }
        // The others learn of it from the target soon. Telling them saves their clients a redirection.
        for other in others {
            let command = Self.setSlot(slot, "NODE", target.id)
            _ = try? await self.client.send(command, to: other.endpoint, options: .init(patience: .zero))
        }
        return moved
    }

    // MARK: Steps

    private static func setSlot(_ slot: Int, _ state: String, _ node: String?) -> RedisCommand {
        let arguments: [RedisArgument] = ["SETSLOT", .integer(slot), .text(state)]
        return RedisCommand("CLUSTER", arguments + (node.map { [.text($0)] } ?? []))
    }

    private func set(_ slot: Int, _ state: String, _ node: String?, at place: ClusterNodes.Node) async throws(Failure) {
        _ = try await self.ask(place, slot, Self.setSlot(slot, state, node))
    }

    /// Returns the mark of a slot at a node that it is being moved; nil when it has none.
    private func openSlot(_ slot: Int, at node: ClusterNodes.Node) async throws(Failure) -> ClusterNodes.OpenSlot? {
        let reply = try await self.ask(node, slot, RedisCommand("CLUSTER", "NODES"))
        do throws(RedisError) {
            let nodes = try ClusterNodes(try reply.root.text(), from: node.endpoint)
            return nodes.nodes.first(where: \.isSelf)?.openSlots.first { $0.slot == slot }
        } catch {
            throw Self.failure(slot, node, error)
        }
    }

    private func keys(_ slot: Int, at node: ClusterNodes.Node, atMost count: Int) async throws(Failure) -> [[UInt8]] {
        let command = RedisCommand("CLUSTER", "GETKEYSINSLOT", .integer(slot), .integer(count))
        return try await self.ask(node, slot, command).root.children.compactMap(\.bytes)
    }

    /// Returns the bytes of memory that a key takes; 0 when that cannot be known, as for a key that is gone.
    private func memory(of key: [UInt8], at node: ClusterNodes.Node) async -> Int64 {
        let command = RedisCommand("MEMORY", "USAGE", .bytes(key))
        let reply = try? await self.client.send(command, to: node.endpoint, options: .init(patience: .zero))
        return reply?.root.integer ?? 0
    }

    /// Returns the bytes of memory of the keys of a slot, as far as Redis lists them.
    ///
    /// - Throws: `Failure` for a key that would stop its master for long, before anything is moved.
    private func sizes(_ slot: Int, _ source: ClusterNodes.Node) async throws(Failure) -> [[UInt8]: Int64] {
        var sizes: [[UInt8]: Int64] = [:]
        for key in try await self.keys(slot, at: source, atMost: self.keysListedMax) {
            let bytes = await self.memory(of: key, at: source)
            guard bytes <= self.keyBytesMax else {
                let name = String(decoding: key, as: UTF8.self)
                throw Failure(
                    description: "the key \(name) of slot \(slot) takes \(bytes / 1_048_576) MiB, more than the "
                        + "\(self.keyBytesMax / 1_048_576) MiB that can be moved without stopping its master for long: "
                        + "let its backlog drain (apus lag --shards), then run the command again"
                )
            }
            sizes[key] = bytes
        }
        return sizes
    }

    /// Returns the first keys whose memory together stays within the limit; at least one. Pure.
    package static func batch(_ keys: [[UInt8]], _ sizes: [[UInt8]: Int64]) -> ArraySlice<[UInt8]> {
        var bytes: Int64 = 0
        let end = keys.firstIndex { key in
            bytes += sizes[key] ?? 0
            return bytes > Limits.bytesAtOnceMax
        }
        return keys.prefix(max(1, end ?? keys.count))
    }

    /// Moves keys; those that are gone meanwhile do not matter.
    ///
    /// A key that the target has already is there because an earlier `MIGRATE` was cut off after it had arrived. Since then it was
    /// used at the source only, which has it, so the source's replaces it.
    ///
    /// - Parameter replacing: false for a source of which that is not known: `MIGRATE` then refuses such a key.
    private func migrate(
        _ keys: some Sequence<[UInt8]>,
        _ slot: Int,
        from source: ClusterNodes.Node,
        to target: ClusterNodes.Node,
        replacing: Bool,
    ) async throws(Failure) {
        guard case .host(let host, let port) = target.address else { return }
        let milliseconds = Limits.migrateTimeout.components.seconds * 1_000
        var arguments: [RedisArgument] = [.text(host), .integer(port), "", 0, .integer(milliseconds)]
        if replacing { arguments.append("REPLACE") }
        if let password, let username {
            arguments += ["AUTH2", .text(username), .text(password)]
        } else if let password {
            arguments += ["AUTH", .text(password)]
        }
        arguments.append("KEYS")
        arguments += keys.map { .bytes($0) }
        _ = try await self.ask(
            source,
            slot,
            RedisCommand("MIGRATE", arguments),
            timeout: Limits.migrateTimeout + .seconds(5)
        )
    }

    /// Refuses to go on with a slot of which both masters have keys of the same name.
    private func checkForeignKeys(
        _ slot: Int,
        _ source: ClusterNodes.Node,
        _ target: ClusterNodes.Node,
    ) async throws(Failure) {
        let most = self.keysListedMax
        let both = Set(try await self.keys(slot, at: source, atMost: most))
            .intersection(try await self.keys(slot, at: target, atMost: most))
        guard let key = both.min(by: { $0.lexicographicallyPrecedes($1) }) else { return }
        let count = both.count == 1 ? "one key is" : "\(both.count) keys are"
        throw Self.foreignKeys(count, slot, source, target, such: String(decoding: key, as: UTF8.self))
    }

    private static func foreignKeys(
        _ count: String,
        _ slot: Int,
        _ source: ClusterNodes.Node,
        _ target: ClusterNodes.Node,
        such key: String? = nil,
    ) -> Failure {
        Failure(
            description:
                "\(source.endpoint) took over slot \(slot) in the middle of its move to \(target.endpoint), and "
                + "\(count) on both\(key.map { ", such as \($0)" } ?? ""): compare them (redis-cli -c off), delete the wrong "
                + "ones, then run the command again"
        )
    }

    // MARK: Asking

    /// Sends a command that may be repeated, again after errors that pass.
    private func ask(
        _ node: ClusterNodes.Node,
        _ slot: Int,
        _ command: RedisCommand,
        timeout: Duration? = nil,
    ) async throws(Failure) -> RESPReply {
        var tries = 0
        while true {
            do throws(RedisError) {
                let options = RedisClient.Options(isIdempotent: true, timeout: timeout)
                return try await self.client.send(command, to: node.endpoint, options: options)
            } catch {
                tries += 1
                // A target that has just joined answers MIGRATE with CLUSTERDOWN for a moment.
                let passes =
                    error.isRetryable || error.isUnanswered || error.word == "IOERR"
                    || error.message.contains("CLUSTERDOWN")
                guard passes, tries <= Limits.retriesMax else { throw Self.failure(slot, node, error) }
            }
            // A move that was begun goes on when its caller is interrupted.
            try? await Task.sleep(for: Limits.retryPause)
        }
    }

    private static func failure(_ slot: Int?, _ node: ClusterNodes.Node, _ error: RedisError) -> Failure {
        let place = slot.map { "slot \($0), at \(node.endpoint)" } ?? "\(node.endpoint)"
        if error.code == .noPermission {
            let cure =
                "run it as a user who may CLUSTER SETSLOT and MIGRATE, such as the administrator who ran apus init"
            return Failure(description: "\(place): \(error.message): \(cure)")
        }
        return Failure(description: "\(place): \(error.message)")
    }
}
