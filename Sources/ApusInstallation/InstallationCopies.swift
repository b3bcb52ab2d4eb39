package import ApusCore
package import ApusRedis
package import ApusStreams

/// Keeps copies of what a service must know to start: the sizes of the installation and the numbers of its routes.
///
/// The originals, `apus:meta` and `apus:routes`, lie on one master each. The copies `{q…}installation` are spread over the slots of a
/// Redis Cluster, so that a service starts while the master of an original is away, and so that originals which were lost with the data of
/// their master are written again. Sizes and numbers never change, so a copy is never wrong; it may lack routes. One server needs no copies
/// and has none.
package struct InstallationCopies: Sendable {
    /// The content of a copy.
    package struct Content: Hashable, Sendable {
        /// The sizes of the installation.
        package var meta: ApusMeta
        /// The numbers of routes by their names, "<app>/<provider>/<environment>".
        package var routes: [String: RouteNumber]

        /// Creates a content.
        package init(meta: ApusMeta, routes: [String: RouteNumber] = [:]) {
            self.meta = meta
            self.routes = routes
        }

        /// Creates the content of a copy from its fields; nil when a program with another layout wrote it, or when it is damaged.
        init?(fields: [String: String]) {
            guard let meta = ApusMeta(fields: fields) else { return nil }
            self.init(meta: meta)
            for (name, text) in fields where name.contains("/") {
                guard let number = UInt32(text) else { return nil }
                self.routes[name] = RouteNumber(number)
            }
        }

        /// The fields of a copy.
        var fields: [String: String] {
            self.meta.fields.merging(self.routes.map { ($0, "\($1)") }) { first, _ in first }
        }

        /// Joins contents: a route is known when any of them has it. Nil when there is none.
        ///
        /// - Throws: `layoutMismatch` when two contradict each other, because then at least one of them is of another installation.
        static func joined(_ contents: [Content]) throws(RedisError) -> Content? {
            guard var joined = contents.first else { return nil }
            for content in contents {
                guard content.meta == joined.meta else { throw InstallationCopies.contradiction }
                for (name, number) in content.routes {
                    guard joined.routes.updateValue(number, forKey: name) ?? number == number else {
                        throw InstallationCopies.contradiction
                    }
                }
            }
            return joined
        }
    }

    private static let contradiction = RedisError(
        .layoutMismatch,
        "the copies {q…}installation contradict each other, so some are of another installation: list them with "
            + "`redis-cli --cluster call HOST:PORT KEYS '{q*}installation'`, compare them with HGETALL, remove the wrong ones with DEL, "
            + "and run `apus init`"
    )

    /// The tags of the copies, the same for installations of all sizes: those of the queue shards of a new cluster.
    package static let tags = Keyspace(queueShards: Keyspace.queueShardsOfCluster, devicePartitions: 1).shardTags

    /// A copy is read and written in one attempt of at most this time: what fails is done again by the caller.
    private static let options = RedisClient.Options(isIdempotent: true, patience: .zero, timeout: .seconds(1))

    private let client: RedisClient

    /// Creates the copies of the installation behind a client.
    package init(_ client: RedisClient) { self.client = client }

    /// The tags of the copies that this installation has: none on one server.
    package var tags: [HashTag] {
        guard case .cluster = self.client.configuration.deployment else { return [] }
        return Self.tags
    }

    /// Reads the copies on the masters that answer, and joins them; nil when there is none.
    ///
    /// - Parameter limit: the longest time that a copy is waited for.
    /// - Throws: `layoutMismatch` when they contradict each other.
    package func read(within limit: Duration = .seconds(1)) async throws(RedisError) -> Content? {
        let found = await withTaskGroup(of: Content?.self) { group in
            for tag in self.tags { group.addTask { await firstWithin(limit) { await self.find(at: tag) } ?? nil } }
            var contents: [Content] = []
            for await content in group { if let content { contents.append(content) } }
            return contents
        }
        return try Content.joined(found)
    }

    /// Reads all copies, and joins them; nil when there is none.
    ///
    /// - Throws: `layoutMismatch` when they contradict each other; the error of a master that does not answer, since its copies might be
    ///   the only ones.
    package func readAll() async throws(RedisError) -> Content? {
        let answers = await withTaskGroup(of: Result<Content?, RedisError>.self) { group in
            for tag in self.tags {
                group.addTask {
                    do throws(RedisError) {
                        return .success(try await self.read(at: tag, .idempotent))
                    } catch {
                        return .failure(error)
                    }
                }
            }
            var answers: [Result<Content?, RedisError>] = []
            for await answer in group { answers.append(answer) }
            return answers
        }
        var contents: [Content] = []
        for answer in answers { if let content = try answer.get() { contents.append(content) } }
        return try Content.joined(contents)
    }

    /// Writes the numbers of routes back that Redis has lost, as on a master that came back without its data. No new route gets one of
    /// them.
    ///
    /// - Returns: the names of those that cannot be written back: by now Redis has another number for them, or their number is another
    ///   route's.
    /// - Throws: `layoutMismatch` when the copies contradict each other.
    package func restoreNumbers(in routes: Routes) async throws -> [String] {
        guard let copied = try await self.read()?.routes else { return [] }
        let known = Set(try await routes.all().map(\.name))
        let lost = copied.filter { !known.contains($0.key) }.map { NumberedRoute(number: $0.value, name: $0.key) }
            .sorted { $0.number < $1.number }
        guard !lost.isEmpty else { return [] }
        return try await routes.report(lost, absenceMilliseconds: StreamLimits.routeAbsenceMilliseconds).contradicted
    }

    /// Returns every route that has a number, in the order of the numbers: those of the copies while the master that has the list is away. Then
    /// it is not known which of them are still configured.
    package func routes(of streams: SendStreams) async throws -> [NumberedRoute] {
        let failure: RedisError
        do {
            return try await streams.routes.all(patience: self.tags.isEmpty ? nil : Installation.originalPatience)
        } catch let error as RedisError {
            failure = error
        }
        guard failure.isRetryable || failure.isUnanswered, let found = try await self.read() else { throw failure }
        return found.routes.map { NumberedRoute(number: $0.value, name: $0.key, isConfigurationKnown: false) }
            .sorted { $0.number < $1.number }
    }

    /// Writes one copy. Routes that it has besides stay.
    package func write(_ content: Content, at tag: HashTag) async throws(RedisError) {
        let fields = content.fields.sorted { $0.key < $1.key }.flatMap { [RedisArgument.text($0), .text($1)] }
        let command = RedisCommand("HSET", [.text(Self.key(tag))] + fields)
        _ = try await self.client.send(command, on: tag, options: Self.options)
    }

    /// Reads one copy; nil when there is none, or when its master does not answer.
    private func find(at tag: HashTag) async -> Content? { try? await self.read(at: tag, Self.options) }

    /// Reads one copy; nil when there is none.
    private func read(at tag: HashTag, _ options: RedisClient.Options) async throws(RedisError) -> Content? {
        let command = RedisCommand("HGETALL", .text(Self.key(tag)))
        let answer = try await self.client.send(command, on: tag, options: options).root
        let texts = answer.children.map { $0.string ?? "" }
        let pairs = stride(from: 0, to: texts.count - 1, by: 2).map { (texts[$0], texts[$0 + 1]) }
        return Content(fields: Dictionary(pairs) { $1 })
    }

    private static func key(_ tag: HashTag) -> String { tag.key("installation") }
}
