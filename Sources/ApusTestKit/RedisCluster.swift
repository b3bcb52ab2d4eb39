package import ApusRedis

/// Runs a private Redis Cluster of several `redis-server` processes for tests, drills and the demo.
///
/// All nodes know each other from the start, so no node has to be met; new masters are met.
package final class RedisCluster: Sendable {
    /// The masters, in the order of the slots that they have at the start.
    package let masters: [RedisServer]
    /// The replicas: those of the first master first.
    package let replicas: [RedisServer]
    /// Masters without slots that the others do not know yet.
    package let spares: [RedisServer]

    /// All nodes.
    package var nodes: [RedisServer] { self.masters + self.replicas + self.spares }

    /// The address of the cluster, which names the first nodes.
    package var url: String {
        "redis+cluster://" + self.masters.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
    }

    /// The same for connections with TLS; traps when the nodes have none.
    package var tlsURL: String {
        let places = self.masters.compactMap(\.tlsPort).map { "127.0.0.1:\($0)" }
        precondition(places.count == self.masters.count, "the nodes were started without TLS")
        return "rediss+cluster://\(places.joined(separator: ","))/?ca=\(self.masters[0].directory)/ca.pem"
    }

    private init(masters: [RedisServer], replicas: [RedisServer], spares: [RedisServer]) {
        self.masters = masters
        self.replicas = replicas
        self.spares = spares
    }

    /// Starts a cluster and waits until every node calls it well.
    ///
    /// - Parameters:
    ///   - replicas: the number of replicas of each master.
    ///   - spares: the number of nodes that can join later.
    ///   - nodeTimeout: the silence in milliseconds after which a node counts as failed.
    package static func start(
        masters: Int = 3,
        replicas: Int = 1,
        spares: Int = 0,
        nodeTimeout: Int = 1_000,
        _ options: RedisServer.Options = RedisServer.Options(),
    ) async throws -> RedisCluster {
        precondition(masters > 0 && replicas >= 0 && spares >= 0)
        // On a busy machine nodes may take each other for failed before all have begun, and then not agree any more.
        for _ in 1..<Self.startsMax {
            do {
                return try await Self.start(masters, replicas, spares, nodeTimeout, options, patience: .seconds(60))
            } catch is EventuallyTimedOut {
                continue
            }
        }
        return try await Self.start(masters, replicas, spares, nodeTimeout, options, patience: .seconds(180))
    }

    private static let startsMax = 3

    private static func start(
        _ masters: Int,
        _ replicas: Int,
        _ spares: Int,
        _ nodeTimeout: Int,
        _ options: RedisServer.Options,
        patience: Duration,
    ) async throws -> RedisCluster {
        var options = options
        options.isMember = true
        options.settings["cluster-node-timeout"] = "\(nodeTimeout)"
        options.settings["cluster-replica-validity-factor"] = "0"
        options.settings["cluster-migration-barrier"] = "99"
        options.settings["repl-ping-replica-period"] = "1"
        if options.tls != nil { options.settings["tls-cluster"] = "yes" }
        let servers = try (0..<masters * (1 + replicas) + spares).map { _ in
            try RedisServer(options: options, directory: try TemporaryDirectory.make("apus-redis"))
        }
        let cluster = RedisCluster(
            masters: Array(servers[..<masters]),
            replicas: Array(servers[masters..<servers.count - spares]),
            spares: Array(servers.suffix(spares)),
        )
        do {
            try await cluster.launch(patience)
            return cluster
        } catch {
            await cluster.stop()
            throw error
        }
    }

    /// Runs `body` with a cluster of its own, and stops it afterwards.
    @discardableResult
    package static func with<Result>(
        masters: Int = 3,
        replicas: Int = 1,
        spares: Int = 0,
        nodeTimeout: Int = 1_000,
        _ options: RedisServer.Options = RedisServer.Options(),
        _ body: (RedisCluster) async throws -> Result,
    ) async throws -> Result {
        let cluster = try await Self.start(
            masters: masters,
            replicas: replicas,
            spares: spares,
            nodeTimeout: nodeTimeout,
            options,
        )
        return try await stopping({ await cluster.stop() }, after: { try await body(cluster) })
    }

    /// Stops all nodes and removes their folders. May be called twice.
    package func stop() async {
        await withTaskGroup(of: Void.self) { group in
            for node in self.nodes { group.addTask { await node.stop() } }
        }
    }

    // MARK: Questions

    /// Returns what the first node that answers says of all nodes.
    package func table() async throws -> ClusterNodes {
        for node in self.nodes where node.processID != nil {
            guard let reply = try? await node.command("CLUSTER", "NODES") else { continue }
            return try ClusterNodes(try reply.root.text(), from: .host("127.0.0.1", port: node.port))
        }
        throw RedisServerError("no node of the cluster answers")
    }

    /// Returns the node that holds a slot.
    package func owner(ofSlot slot: Int) async throws -> RedisServer {
        let table = try await self.table()
        let found = table.nodes.first { $0.isMaster && !$0.isFailed && $0.slots.contains { $0.contains(slot) } }
        guard let found, let node = self.nodes.first(where: { Self.endpoint($0) == found.endpoint }) else {
            throw RedisServerError("no node holds the slot \(slot)")
        }
        return node
    }

    /// Returns the address of a node.
    package static func endpoint(_ node: RedisServer) -> RedisEndpoint { .host("127.0.0.1", port: node.port) }

    // MARK: Changes

    /// Lets the replica of a master take over while the master lives, and waits until it has.
    package func failOver(from master: RedisServer) async throws {
        let replica = try await self.replica(of: master)
        for _ in 1...Self.failoverAttemptsMax {
            // It is refused when the node is the master by now.
            _ = try? await replica.command("CLUSTER", "FAILOVER")
            // A node gives up after five seconds, as on a machine that is busy, and must be told again.
            if (try? await self.untilMaster(replica, timeout: Self.failoverPatience)) != nil { return }
        }
        throw RedisServerError("the replica of a master did not take over")
    }

    private static let failoverAttemptsMax = 10
    private static let failoverPatience = Duration.seconds(6)

    /// Returns a living replica of a master, as soon as it has one: a master that has just given up its slots follows a moment later.
    package func replica(of master: RedisServer) async throws -> RedisServer {
        let id = try await self.id(of: master)
        var found: RedisServer?
        try await eventually("the master has a replica") {
            let follower = try await self.table().nodes.first { $0.master == id && !$0.isFailed }
            found = self.nodes.first { follower?.endpoint == Self.endpoint($0) }
            return found != nil
        }
        guard let found else { preconditionFailure("there is one when the wait has ended") }
        return found
    }

    /// Waits until a node is a master, in its own view and that of all living nodes.
    ///
    /// - Parameter frozen: a node that cannot answer.
    package func untilMaster(
        _ node: RedisServer,
        besides frozen: RedisServer? = nil,
        timeout: Duration = .seconds(60),
    ) async throws {
        try await eventually("the node is a master", timeout: timeout) {
            for other in self.masters + self.replicas where other.processID != nil && other !== frozen {
                let reply = try await other.command("CLUSTER", "NODES")
                let table = try ClusterNodes(try reply.root.text(), from: Self.endpoint(other))
                let found = table.nodes.first { $0.endpoint == Self.endpoint(node) }
                guard found?.isMaster == true, found?.slots.isEmpty == false else { return false }
            }
            return true
        }
    }

    /// Lets a master forget what a replica that is suspended has not read: both are killed, and the replica comes back and takes over. The
    /// nodes need append-only files.
    package func rollBack(_ master: RedisServer, to replica: RedisServer) async throws {
        // The writes that the replica had not read yet are gone with its process.
        await master.kill()
        await replica.kill()
        try await replica.restart()
        try await self.untilMaster(replica)
    }

    /// Lets a spare node join as a master without slots.
    package func join(_ spare: RedisServer) async throws {
        let first = self.masters[0]
        _ = try await spare.command(
            "CLUSTER",
            "MEET",
            "127.0.0.1",
            .integer(first.port),
            .integer(first.busPort),
        )
        try await eventually("all nodes know the new one") {
            for node in self.masters + self.replicas + [spare] where node.processID != nil {
                let text = try await node.command("CLUSTER", "NODES").root.text()
                let known = try ClusterNodes(text, from: Self.endpoint(node)).nodes
                guard known.contains(where: { $0.endpoint == Self.endpoint(spare) && $0.isMaster }) else {
                    return false
                }
            }
            return true
        }
    }

    /// Begins to move a slot: keys are moved one by one by ``moveKeys(of:count:from:to:)``, and ``finishMove(of:from:to:)`` ends it.
    package func beginMove(of slot: Int, from source: RedisServer, to target: RedisServer) async throws {
        let (sourceID, targetID) = (try await self.id(of: source), try await self.id(of: target))
        _ = try await target.command("CLUSTER", "SETSLOT", .integer(slot), "IMPORTING", .text(sourceID))
        _ = try await source.command("CLUSTER", "SETSLOT", .integer(slot), "MIGRATING", .text(targetID))
    }

    /// Moves up to `count` keys of a slot that is being moved. Returns the number of keys that were moved.
    package func moveKeys(
        of slot: Int,
        count: Int,
        from source: RedisServer,
        to target: RedisServer
    ) async throws -> Int {
        let keys = try await source.command("CLUSTER", "GETKEYSINSLOT", .integer(slot), .integer(count)).root
            .children.compactMap(\.string)
        for key in keys {
            // A target that has just joined answers with CLUSTERDOWN for a moment.
            var tries = 0
            while true {
                do {
                    _ = try await source.command("MIGRATE", "127.0.0.1", .integer(target.port), .text(key), 0, 10_000)
                    break
                } catch {
                    tries += 1
                    guard "\(error)".contains("CLUSTERDOWN"), tries <= 100 else { throw error }
                }
                try await Task.sleep(for: .milliseconds(100))
            }
        }
        return keys.count
    }

    /// Ends the move of a slot of which no key is left at the source.
    package func finishMove(of slot: Int, from source: RedisServer, to target: RedisServer) async throws {
        let id = try await self.id(of: target)
        let table = try await self.table()
        let masters = self.nodes.filter { node in
            table.nodes.contains { $0.isMaster && !$0.isFailed && $0.endpoint == Self.endpoint(node) }
        }
        // The target first, as the specification says: a source that dies in between leaves it the owner.
        for node in [target, source] + masters where node.processID != nil {
            _ = try await node.command("CLUSTER", "SETSLOT", .integer(slot), "NODE", .text(id))
        }
    }

    /// Moves a whole slot to another master, and waits until all masters know of it as that one does. Whoever moves it on before may lose
    /// keys: a node believes an earlier owner until it learns of the later one's epoch.
    package func move(_ slot: Int, to target: RedisServer) async throws {
        let source = try await self.owner(ofSlot: slot)
        guard source !== target else { return }
        try await self.beginMove(of: slot, from: source, to: target)
        while try await self.moveKeys(of: slot, count: 100, from: source, to: target) > 0 {}
        try await self.finishMove(of: slot, from: source, to: target)
        try await self.untilOwner(target, ofSlot: slot)
    }

    /// Waits until all masters know a slot's owner as that one does.
    package func untilOwner(_ target: RedisServer, ofSlot slot: Int) async throws {
        try await eventually("all masters know the new owner's epoch") {
            let own = try await self.view(of: target, by: target)
            for node in self.masters where node.processID != nil {
                let known = try await self.view(of: target, by: node)
                guard known?.epoch == own?.epoch, known?.slots.contains(where: { $0.contains(slot) }) == true else {
                    return false
                }
            }
            return true
        }
    }

    /// Returns what a node knows of another one, or of itself.
    private func view(of node: RedisServer, by other: RedisServer) async throws -> ClusterNodes.Node? {
        let text = try await other.command("CLUSTER", "NODES").root.text()
        return try ClusterNodes(text, from: Self.endpoint(other)).nodes.first { $0.endpoint == Self.endpoint(node) }
    }

    private func id(of node: RedisServer) async throws -> String {
        try await node.command("CLUSTER", "MYID").root.text()
    }

    // MARK: Starting

    private func launch(_ patience: Duration) async throws {
        let ids = Dictionary(
            uniqueKeysWithValues: self.nodes.enumerated().map { index, node in
                (node.port, String(repeating: "0", count: 38) + (index < 16 ? "0" : "") + String(index, radix: 16))
            }
        )
        var lines: [Int: String] = [:]
        let perMaster = self.replicas.count / self.masters.count
        for (index, node) in self.masters.enumerated() {
            let first = index * HashTag.slotCount / self.masters.count
            let last = (index + 1) * HashTag.slotCount / self.masters.count - 1
            lines[node.port] = "master - 0 0 \(index + 1) connected \(first)-\(last)"
        }
        for (index, node) in self.replicas.enumerated() {
            let master = index / perMaster
            lines[node.port] = "slave \(ids[self.masters[master].port] ?? "") 0 0 \(master + 1) connected"
        }
        let epoch = self.masters.count
        for node in self.nodes {
            try node.writeFiles()
            let known = self.spares.contains { $0 === node } ? [node] : self.masters + self.replicas
            var text = ""
            for other in known {
                let flags = other === node ? "myself," : ""
                let line = lines[other.port] ?? "master - 0 0 0 connected"
                let port = other.tlsPort ?? other.port
                text += "\(ids[other.port] ?? "") 127.0.0.1:\(port)@\(other.busPort) \(flags)\(line)\n"
            }
            text += "vars currentEpoch \(known.count == 1 ? 0 : epoch) lastVoteEpoch 0\n"
            try writeFile("\(node.directory)/nodes.conf", text)
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in self.nodes { group.addTask { try await node.launch() } }
            try await group.waitForAll()
        }
        try await eventually("every node calls the cluster well", timeout: patience) {
            for node in self.masters + self.replicas {
                let information = try await node.command("CLUSTER", "INFO").root.text()
                guard information.contains("cluster_state:ok") else { return false }
            }
            for replica in self.replicas {
                let information = try await replica.command("INFO", "replication").root.text()
                guard information.contains("master_link_status:up") else { return false }
            }
            return true
        }
    }
}
