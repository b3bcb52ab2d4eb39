internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import ApusTLS

/// Caches the contexts of sends: each is decoded, rendered and resolved once per process, and kept while it is used. One that is only too old
/// for its messages is rendered again, and not resolved: a topic keeps its number, and the server that has it may be away.
actor SendContextCache {
    /// The maximum number of contexts. The least recently used is evicted first.
    static let contextsMax = 256
    /// The maximum number of bytes of the contexts' commands and messages.
    static let contextBytesMax = 16 * 1_024 * 1_024
    /// The idle time after which a context is loaded again: half of the minimum time for which a ledger is kept.
    static let idleMillisecondsMax: Int64 = 30_000
    /// The maximum age of a context with an expiry, because its rendered messages may contain the remaining time to
    /// live.
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

    /// Returns the context of a send that is stored in Redis; nil if the send has ended.
    ///
    /// - Parameter isNew: true if the send has just been accepted. A cached context of the same key then belongs to an
    ///   earlier send.
    func context(of send: SendKey, tag: HashTag, isNew: Bool = false) async throws -> SendContext? {
        let (key, now) = ("\(tag)\(send)", self.clock.now())
        if isNew { self.cache.remove(key) }
        let former = self.cache.takeAged(key, now: now)
        let formerTask = former?.value
        let known = self.cache.value(key, now: now)
        let task = known ?? Task { try await self.load(send, tag: tag, former: formerTask) }
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
            if known == nil {
                self.cache.remove(key)
                if let former { self.cache.restore(former, key) }
            }
            throw error
        }
    }

    /// Creates the context of a given command. It is not cached, and is made on the caller's executor.
    ///
    /// - Parameters:
    ///   - reached: the providers of its recipients; nil: of any provider.
    ///   - former: an earlier context of the send, whose target is not resolved again if all its topics had numbers.
    ///   - isAccepted: true if the command was read from Redis, where it was stored when it was accepted.
    nonisolated func context(
        of command: consuming SendCommand,
        send: String,
        tag: HashTag,
        reached: ReachedProviders? = nil,
        former: SendContext? = nil,
        isAccepted: Bool = false,
    ) async throws -> SendContext {
        command.target = command.target.withoutRepeats
        let app = try AppID(command.app)
        let now = self.clock.now()
        let publishedAt = command.publishedAt(now: now)
        let rendered = try self.routes.render(
            command,
            app: app,
            context: RenderContext(
                send: try SendID(send),
                publishedAt: publishedAt,
                notBefore: command.notBefore,
                now: now,
                isAccepted: isAccepted,
            ),
            reached: reached,
        )
        let resolved: (predicate: SendContext.Predicate, namesUnknownTopic: Bool)
        if let former, !former.namesUnknownTopic {
            resolved = (former.predicate, false)
        } else {
            // All processes use the same time for `now`, as far as the command names one.
            resolved = try await SendContext.Predicate.resolve(
                command.target,
                app: app,
                now: command.resolvedAt(now: now),
                in: self.store,
            )
        }
        for route in rendered.contexts.values { self.instruments.recordSizes(of: route) }
        let digest = SHA256.hash(utf8: SendKey(app: command.app, id: send).description).prefix(8)
        let expiresAt = command.deadline(now: now)
        return SendContext(
            send: send,
            command: consume command,
            tag: tag,
            digest: digest.reduce(0) { $0 << 8 | UInt64($1) },
            expiresAt: expiresAt,
            predicate: resolved.predicate,
            namesUnknownTopic: resolved.namesUnknownTopic,
            routes: rendered.contexts,
            tooLargeFor: rendered.tooLargeFor,
            unneeded: rendered.unneeded,
            anyProvider: self.routes.apps[app]?.first?.route.provider ?? self.routes.anyProvider,
            anyRoute: self.routes.apps[app]?.map(\.number).min(),
            others: self.routes.others,
        )
    }

    private func load(
        _ send: SendKey,
        tag: HashTag,
        former: Task<SendContext?, any Error>?,
    ) async throws -> SendContext? {
        guard let command = try await self.streams.mailboxes.command(of: send, tag: tag) else { return nil }
        let former = try? await former?.value
        return try await self.context(of: command, send: send.id, tag: tag, former: former, isAccepted: true)
    }
}
