internal import ApusInstallation
package import ApusRedis

/// Holds what each node of a Redis Cluster says of itself and of the others.
package struct ClusterSurvey: Hashable, Sendable {
    /// The facts of a node that answers.
    package struct Facts: Hashable, Sendable {
        /// The fields of `INFO`.
        package var info: [String: String] = [:]
        /// The version of Apus' functions; nil when they are missing.
        package var functions: FunctionLibrary.Version?
        /// The values of `CONFIG`; nil when the user may not read them.
        package var settings: [String: String]?
        /// The users with their rules, by name; nil when this user may not read them. The texts hold digests of passwords: they are
        /// compared and never shown.
        package var users: [String: String]?

        /// Creates facts.
        package init(
            info: [String: String] = [:],
            functions: FunctionLibrary.Version? = nil,
            settings: [String: String]? = nil,
            users: [String: String]? = nil,
        ) {
            self.info = info
            self.functions = functions
            self.settings = settings
            self.users = users
        }

        func number(_ name: String) -> Int64? { self.info[name].flatMap { Int64($0) } }
    }

    /// A node with its facts.
    package struct Member: Hashable, Sendable {
        /// The node, with its own open slots.
        package var node: ClusterNodes.Node
        /// The facts, or the reason why it gives none.
        package var facts: Result<Facts, RedisError>

        /// Creates a member.
        package init(_ node: ClusterNodes.Node, _ facts: Result<Facts, RedisError>) {
            self.node = node
            self.facts = facts
        }

        /// The facts; nil when it does not answer.
        var answer: Facts? { try? self.facts.get() }
        /// The address as text.
        var place: String { "\(self.node.endpoint)" }
    }

    /// The settings that must be the same on every node, since any of them may become a master.
    package static let settingNames = [
        "appendfsync", "appendonly", "cluster-allow-replica-migration", "cluster-migration-barrier",
        "cluster-node-timeout",
        "cluster-replica-validity-factor", "cluster-require-full-coverage", "hash-max-listpack-entries",
        "hash-max-listpack-value", "maxclients", "maxmemory", "maxmemory-policy", "min-replicas-to-write",
    ]

    /// The nodes: each master, followed by its replicas.
    package let members: [Member]

    /// Creates a survey.
    package init(_ members: [Member]) {
        let masters = members.filter(\.node.isMaster).sorted { $0.place < $1.place }
        let replicas = members.filter { !$0.node.isMaster }.sorted { $0.place < $1.place }
        let followed = masters.flatMap { master in [master] + replicas.filter { $0.node.master == master.node.id } }
        self.members = followed + replicas.filter { replica in !masters.contains { $0.node.id == replica.node.master } }
    }

    /// Asks every node of the cluster that a client's address names.
    ///
    /// - Throws: the reason why none of the named nodes answers.
    package init(_ client: RedisClient) async throws(RedisError) {
        let table = try await Self.table(client)
        var members: [Member] = []
        for node in table.nodes {
            var node = node
            do throws(RedisError) {
                let own = try await Self.nodes(of: node.endpoint, client).nodes.first(where: \.isSelf)
                node.openSlots = own?.openSlots ?? []
                members.append(Member(node, .success(try await Self.facts(of: node.endpoint, client))))
            } catch {
                members.append(Member(node, .failure(error)))
            }
        }
        self.init(members)
    }

    /// The table of the cluster, with the open slots of all nodes that answer.
    package var nodes: ClusterNodes { ClusterNodes(nodes: self.members.map(\.node)) }

    /// Returns the users that a node lacks, or has with another password or other rules, of those that all other masters with slots have
    /// alike; sorted, and as far as this user may read them.
    package func usersMissing(on id: String) -> [String] {
        guard let own = self.members.first(where: { $0.node.id == id })?.answer?.users else { return [] }
        let others = self.members.filter { $0.node.isMaster && !$0.node.slots.isEmpty && $0.node.id != id }
            .compactMap { $0.answer?.users }
        guard let first = others.first else { return [] }
        return first.filter { name, line in others.allSatisfy { $0[name] == line } && own[name] != line }.keys.sorted()
    }

    // MARK: Asking

    private static let options = RedisClient.Options(patience: .zero)

    /// Returns what the first named node that answers says of all nodes.
    static func table(_ client: RedisClient) async throws(RedisError) -> ClusterNodes {
        var failure = RedisError(.notConnected, "the address names no node")
        for seed in client.configuration.seeds {
            do throws(RedisError) {
                return try await Self.nodes(of: seed, client)
            } catch {
                guard !error.message.contains("cluster support disabled") else {
                    throw RedisError(.configuration, "\(seed) is no node of a Redis Cluster: see apus doctor instead")
                }
                failure = error
            }
        }
        throw failure
    }

    private static func nodes(
        of endpoint: RedisEndpoint,
        _ client: RedisClient
    ) async throws(RedisError) -> ClusterNodes {
        let reply = try await client.send(RedisCommand("CLUSTER", "NODES"), to: endpoint, options: Self.options)
        return try ClusterNodes(try reply.root.text(), from: endpoint)
    }

    private static func facts(of endpoint: RedisEndpoint, _ client: RedisClient) async throws(RedisError) -> Facts {
        let info = try await client.send(RedisCommand("INFO"), to: endpoint, options: Self.options).root.string ?? ""
        let library = try Installation.library()
        var facts = Facts(
            info: RedisServerFacts.fields(ofInfo: info),
            functions: try await library.loadedVersion(on: client, at: endpoint, options: Self.options),
        )
        let names = Self.settingNames.map { RedisArgument.text($0) }
        // A user without these permissions compares less.
        let settings = try? await client.send(
            RedisCommand("CONFIG", ["GET"] + names),
            to: endpoint,
            options: Self.options
        )
        if let pairs = settings?.root.children.compactMap(\.string) {
            facts.settings = Dictionary(stride(from: 0, to: pairs.count - 1, by: 2).map { (pairs[$0], pairs[$0 + 1]) })
            { $1 }
        }
        let users = try? await client.send(RedisCommand("ACL", "LIST"), to: endpoint, options: Self.options)
        if let lines = users?.root.children.compactMap(\.string) {
            let named = lines.map { line in
                let words = line.split(separator: " ", maxSplits: 2)
                return (words.count > 1 ? String(words[1]) : line, line)
            }
            facts.users = Dictionary(named) { $1 }
        }
        return facts
    }
}
