internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import ApusTLS

/// Caches the contexts of sends: each is decoded, rendered and resolved once per process, then kept while it is used.
actor SendContextCache {
    /// Contexts kept; the least recently used goes first.
    static let contextsMax = 256
    /// Bytes of their commands and messages.
    static let contextBytesMax = 16 * 1_024 * 1_024
    /// What was not used for longer is loaded again. Half of what a ledger is kept at least.
    static let idleMillisecondsMax: Int64 = 30_000
    /// How old a context with an expiry becomes: a provider may be told how long is left, which is written out with it.
    static let ageMillisecondsMax: Int64 = 60_000

    private let streams: SendStreams
    private let store: DeviceStore
    private let instruments: DispatcherInstruments
    private let clock: any WallClock
    private let routes: RouteTable
    private var cache = LRUCache<Task<SendContext?, any Error>>()

    init(
        streams: SendStreams,
        store: DeviceStore,
        routes: RouteTable,
        instruments: DispatcherInstruments,
        clock: any WallClock,
    ) {
        self.streams = streams
        self.store = store
        self.routes = routes
        self.instruments = instruments
        self.clock = clock
    }

    /// The context of a send that is kept in Redis; nil: it has ended.
    ///
    /// - Parameter isNew: it has just been accepted: what is known of that id was another's.
    func context(of send: String, tag: HashTag, isNew: Bool = false) async throws -> SendContext? {
        let (key, now) = ("\(tag)\(send)", self.clock.now())
        if isNew { self.cache.remove(key) }
        let known = self.cache.value(key, now: now)
        let task = known ?? Task { try await self.load(send, tag: tag) }
        if known == nil { self.cache.insert(task, key, now: now) }
        do {
            guard let context = try await task.value else {
                self.cache.remove(key)
                return nil
            }
            if known == nil {
                self.cache.setCost(
                    key,
                    try context.byteCount(),
                    ageMillisecondsMax: context.expiresAt == nil ? nil : Self.ageMillisecondsMax,
                )
            }
            return context
        } catch {
            self.cache.remove(key)
            throw error
        }
    }

    /// The context of a command that is at hand. It is kept nowhere, so it is made where the caller runs.
    ///
    /// - Parameter isAccepted: whether it was taken from Redis, where it was left when it was accepted.
    nonisolated func context(
        of command: SendCommand,
        send: String,
        tag: HashTag,
        isAccepted: Bool = false,
    ) async throws -> SendContext {
        let app = try AppID(command.app)
        let now = self.clock.now()
        let publishedAt = command.publishedAt(now: now)
        let contexts = try self.routes.render(
            command,
            app: app,
            context: RenderContext(
                send: try SendID(send),
                publishedAt: publishedAt,
                notBefore: command.notBefore,
                now: now,
                isAccepted: isAccepted,
            ),
        )
        for route in contexts.values { self.instruments.recordSizes(of: route) }
        return SendContext(
            send: send,
            command: command,
            tag: tag,
            digest: SHA256.hash(Array(send.utf8)).prefix(8).reduce(0) { $0 << 8 | UInt64($1) },
            expiresAt: command.deadline(now: now),
            // Whoever works on the send takes the same moment for now, as far as the command names one.
            predicate: try await self.predicate(
                of: command.target,
                app: app,
                now: max(publishedAt, command.notBefore ?? publishedAt),
            ),
            routes: contexts,
            anyProvider: self.routes.apps[app]?.first?.route.provider ?? self.routes.anyProvider,
            anyRoute: self.routes.apps[app]?.map(\.number).min(),
            others: self.routes.others,
        )
    }

    private func load(_ send: String, tag: HashTag) async throws -> SendContext? {
        guard let command = try await self.streams.mailboxes.command(of: send, tag: tag) else { return nil }
        return try await self.context(of: command, send: send, tag: tag, isAccepted: true)
    }

    // MARK: Targets

    private nonisolated func predicate(
        of target: Target,
        app: AppID,
        now: UnixMilliseconds,
    ) async throws -> SendContext.Predicate {
        switch target {
        case .topic(let name):
            return .topics(try await self.expression(of: .topic(try TopicName(name)), app: app))
        case .condition(let text):
            return .topics(try await self.expression(of: try TopicCondition(parsing: text), app: app))
        case .expression(let text):
            return .audience(try await self.store.audience(app, AudienceExpression(parsing: text), now: now))
        case .users(let ids): return .users(ids.map { Array($0.utf8) })
        default: return .exists
        }
    }

    /// The condition over numbers. A topic that nobody ever subscribed has none, and nobody is in it.
    private nonisolated func expression(of condition: TopicCondition, app: AppID) async throws -> TopicExpression {
        var numbers: [TopicName: UInt32] = [:]
        for topic in condition.topics { numbers[topic] = try await self.store.topicNumber(app, topic) }
        return Self.expression(of: condition, numbers)
    }

    private static func expression(of condition: TopicCondition, _ numbers: [TopicName: UInt32]) -> TopicExpression {
        switch condition {
        case .topic(let name): numbers[name].map { .topic($0) } ?? .nobody
        case .not(let inner): .not(Self.expression(of: inner, numbers))
        case .and(let one, let other): .and([Self.expression(of: one, numbers), Self.expression(of: other, numbers)])
        case .or(let one, let other): .or([Self.expression(of: one, numbers), Self.expression(of: other, numbers)])
        }
    }
}
