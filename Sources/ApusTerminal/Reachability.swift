package import ApusCore
internal import ApusRedis
package import ApusStreams

/// Tells which parts of an installation answer, so that a look at all of them leaves out those whose server is away: in a Redis Cluster the
/// others go on without it.
package struct Reachability: Sendable {
    /// Names the lists that belong to no shard.
    package enum List: String, CaseIterable, Hashable, Sendable {
        /// The publishers that have mailboxes of their own.
        case publishers
        /// The processes of the services.
        case services

        fileprivate var key: String {
            switch self {
            case .publishers: StreamKeys.publishers
            case .services: StreamKeys.services
            }
        }
    }

    /// The time during which a part is asked again.
    private static let patience = Duration.seconds(1)
    /// The longest time that a part may take to answer.
    private static let answerMax = Duration.milliseconds(1_500)

    /// The number of all shards.
    private let count: Int
    /// The shards that do not answer, each with its server's address, which is empty when it has none.
    private let silentShards: [Int: String]
    /// The lists that do not answer, each with its server's address.
    private let silentLists: [List: String]

    /// Creates what is known of that many shards; by default all of them answer, and so do the lists.
    package init(shards: Int, silentShards: [Int: String] = [:], silentLists: [List: String] = [:]) {
        self.count = shards
        self.silentShards = silentShards
        self.silentLists = silentLists
    }

    /// Asks all parts at once. One server either answers for all of them or for none, so it is not asked.
    ///
    /// All parts count as answering when none does: reading them gives the error of Redis.
    package init(of streams: SendStreams) async {
        let count = streams.keyspace.queueShards
        guard case .cluster = streams.client.configuration.deployment else {
            self.init(shards: count)
            return
        }
        let shards = (0..<count).map { streams.keys(shard: $0).openSends }
        let keys = shards + List.allCases.map(\.key)
        let silent = await Self.silent(keys, streams.client)
        var silentShards: [Int: String] = [:]
        var silentLists: [List: String] = [:]
        if silent.count < keys.count {
            for (shard, key) in shards.enumerated() { silentShards[shard] = silent[key] }
            for list in List.allCases { silentLists[list] = silent[list.key] }
        }
        self.init(shards: count, silentShards: silentShards, silentLists: silentLists)
    }

    // MARK: Answers

    /// True when every part answers.
    package var isWhole: Bool { self.silentShards.isEmpty && self.silentLists.isEmpty }

    /// The numbers of the shards that answer.
    package var shards: [Int] { (0..<self.count).filter { self.silentShards[$0] == nil } }

    /// Returns true when the shard answers that has the state of a route.
    package func has(_ route: RouteNumber) -> Bool { self.silentShards[Int(route.value) % self.count] == nil }

    /// Returns true when a list answers.
    package func has(_ list: List) -> Bool { self.silentLists[list] == nil }

    /// The sentences about what does not answer; none when everything does.
    package var sentences: [String] {
        var sentences: [String] = []
        if !self.silentShards.isEmpty {
            let subject = "\(self.silentShards.count) of \(self.count) shards"
            sentences.append(Self.sentence(subject, Array(self.silentShards.values)))
        }
        if !self.silentLists.isEmpty {
            let names = self.silentLists.keys.map(\.rawValue).sorted()
            let subject = "the \(names.count == 1 ? "list" : "lists") of \(names.joined(separator: " and "))"
            sentences.append(Self.sentence(subject, Array(self.silentLists.values)))
        }
        return sentences
    }

    /// The parts that do not answer, as JSON; nil when all do.
    package var json: JSONObject? {
        guard !self.isWhole else { return nil }
        let servers = Self.names(Array(self.silentShards.values) + Array(self.silentLists.values))
        var object: JSONObject = ["shards": .integer(self.silentShards.count), "of": .integer(self.count)]
        object["servers"] = .array(servers.map { .string($0) })
        object["lists"] = .array(self.silentLists.keys.map(\.rawValue).sorted().map { .string($0) })
        return object
    }

    /// Returns a sentence about parts that do not answer.
    ///
    /// - Parameter servers: the server of each.
    private static func sentence(_ subject: String, _ servers: [String]) -> String {
        let names = Self.names(servers)
        let place =
            names.isEmpty
            ? "without a server" : "\(names.count == 1 ? "server" : "servers") \(names.joined(separator: ", "))"
        guard servers.count > 1 else { return "\(subject) (\(place)) does not answer: what it holds is left out" }
        return "\(subject) (\(place)) do not answer: what they hold is left out"
    }

    private static func names(_ servers: [String]) -> [String] { Set(servers).filter { !$0.isEmpty }.sorted() }

    // MARK: Questions

    /// Returns those of some keys whose server does not answer in time, each with the server's address.
    private static func silent(_ keys: [String], _ client: RedisClient) async -> [String: String] {
        await withTaskGroup(of: (String, String?).self) { group in
            for key in keys {
                group.addTask {
                    let isAnswered = await firstWithin(Self.answerMax) { await Self.isAnswered(key, client) }
                    guard isAnswered != true else { return (key, nil) }
                    let server = client.topology.endpoint(forSlot: HashTag(ofKey: key).slot)
                    return (key, server.map { "\($0)" } ?? "")
                }
            }
            return await group.reduce(into: [:]) { silent, found in silent[found.0] = found.1 }
        }
    }

    private static func isAnswered(_ key: String, _ client: RedisClient) async -> Bool {
        let options = RedisClient.Options(isIdempotent: true, patience: Self.patience)
        do throws(RedisError) {
            _ = try await client.send(RedisCommand("EXISTS", .text(key)), on: HashTag(ofKey: key), options: options)
            return true
        } catch {
            // Any other error is an answer, and comes again when the part is read.
            return !error.isRetryable && !error.isUnanswered
        }
    }
}
