package import ApusCore
public import ApusRedis

/// Gives access to the streams of all queue shards, by what is done with them.
///
/// Every method calls one function of the library, which is atomic in its shard and idempotent: after any error the caller may simply
/// repeat the call.
public struct SendStreams: Sendable {
    let access: StreamAccess

    /// The client that reaches Redis.
    public var client: RedisClient { self.access.client }
    /// The mapping of ids to shards and partitions.
    public var keyspace: Keyspace { self.access.keyspace }

    /// Creates access to the streams that a client reaches.
    public init(client: RedisClient, keyspace: Keyspace) {
        self.access = StreamAccess(
            client: client,
            keyspace: keyspace,
            observer: nil,
            replayLogs: [:],
            confirmation: nil,
            barrier: nil
        )
    }

    private init(_ access: StreamAccess) { self.access = access }

    /// Returns the same streams; the observer receives every entry that is acknowledged or becomes a dead letter.
    package func observed(by observer: any StreamObserver) -> SendStreams {
        SendStreams(self.access.with(observer: observer))
    }

    /// Returns the same streams; writes into the shards of those logs are repeated when the server comes back without them.
    package func logged(in logs: [ReplayLog]) -> SendStreams {
        SendStreams(self.access.with(replayLogs: Dictionary(uniqueKeysWithValues: logs.map { ($0.tag, $0) })))
    }

    /// Returns the same streams; a unit's report counts as written only when a replica has it, where there is one.
    package func confirmed(by confirmation: ReplicaConfirmation) -> SendStreams {
        SendStreams(self.access.with(confirmation: confirmation))
    }

    /// Returns the same streams; what is written about an entry in another slot, such as a receipt, counts as written only when a replica has it, where
    /// there is one.
    package func guarded(by barrier: ReplicaBarrier) -> SendStreams {
        SendStreams(self.access.with(barrier: barrier))
    }

    /// The barrier that effects in other slots wait at before their acknowledgement; nil when they wait at none.
    package var barrier: ReplicaBarrier? { self.access.barrier }

    /// Returns the keys of a shard by its number.
    public func keys(shard: Int) -> StreamKeys { self.access.keys(shard: shard) }

    /// Returns the home shard of a send: a hash of the app and the idempotency key, else of the app and the id.
    public func home(app: String, _ home: String) -> StreamKeys { self.access.home(app: app, home) }
    /// Returns the home shard of a send.
    package func home(of identity: SendIdentity) -> StreamKeys { self.access.home(of: identity) }

    /// Returns the shard that holds the state of a route.
    package func keys(ofRoute route: RouteNumber) -> StreamKeys { self.access.keys(ofRoute: route) }

    /// The commands of publishers: publishing, intake, and the end of direct sends.
    public var mailboxes: Mailboxes { Mailboxes(access: self.access) }
    /// The plans, which find the recipients of a send on a route.
    package var plans: Plans { Plans(access: self.access) }
    /// The units of work: their progress, and what is scheduled.
    package var work: Work { Work(access: self.access) }
    /// The ownership of entries.
    package var entries: Entries { Entries(access: self.access) }
    /// The outcomes of sends: ledgers and receipts.
    public var outcomes: Outcomes { Outcomes(access: self.access) }
    /// The events that apps report.
    package var events: ClientEvents { ClientEvents(access: self.access) }
    /// The control of sends by operators.
    public var control: SendControl { SendControl(access: self.access) }
    /// The sends of which something was lost.
    package var lostSends: LostSends { LostSends(access: self.access) }
    /// The entries that could not be handled.
    package var deadLetters: DeadLetterStore { DeadLetterStore(access: self.access) }
    /// The routes: their numbers, and their control.
    package var routes: Routes { Routes(access: self.access) }
    /// The publishers that have mailboxes of their own.
    package var publishers: Publishers { Publishers(access: self.access) }
    /// The processes of the services.
    package var processes: ServiceProcesses { ServiceProcesses(access: self.access) }
    /// The lists of sends.
    package var sendLists: SendLists { SendLists(access: self.access) }
    /// The trail of what operators did.
    package var audit: AuditTrail { AuditTrail(access: self.access) }
    /// The rate limits of the whole fleet.
    package var rateLimits: RateLimits { RateLimits(access: self.access) }
    /// The tokens in quarantine.
    package var quarantine: TokenQuarantine { TokenQuarantine(access: self.access) }
    /// The broadcast channels.
    package var channels: Channels { Channels(access: self.access) }
}

/// Holds what the parts of ``SendStreams`` share: the client, the logs and the observer.
final class StreamAccess: Sendable {
    let client: RedisClient
    let keyspace: Keyspace
    let observer: (any StreamObserver)?
    /// The log of each shard for a replay after a failover.
    let replayLogs: [HashTag: ReplayLog]
    /// The confirmation that reports of units wait for; nil when they wait for none.
    let confirmation: ReplicaConfirmation?
    /// The barrier that effects in other slots wait at; nil when they wait at none.
    let barrier: ReplicaBarrier?

    init(
        client: RedisClient,
        keyspace: Keyspace,
        observer: (any StreamObserver)?,
        replayLogs: [HashTag: ReplayLog],
        confirmation: ReplicaConfirmation?,
        barrier: ReplicaBarrier?,
    ) {
        self.confirmation = confirmation
        self.barrier = barrier
        self.client = client
        self.keyspace = keyspace
        self.observer = observer
        self.replayLogs = replayLogs
    }

    /// Returns the same access with the parts that are given.
    func with(
        observer: (any StreamObserver)? = nil,
        replayLogs: [HashTag: ReplayLog]? = nil,
        confirmation: ReplicaConfirmation? = nil,
        barrier: ReplicaBarrier? = nil,
    ) -> StreamAccess {
        StreamAccess(
            client: self.client,
            keyspace: self.keyspace,
            observer: observer ?? self.observer,
            replayLogs: replayLogs ?? self.replayLogs,
            confirmation: confirmation ?? self.confirmation,
            barrier: barrier ?? self.barrier,
        )
    }

    func keys(shard: Int) -> StreamKeys { StreamKeys(tag: self.keyspace.tag(shard: shard)) }

    func home(app: String, _ home: String) -> StreamKeys {
        self.keys(shard: self.keyspace.placement(app: app, id: home).shard)
    }

    func home(of identity: SendIdentity) -> StreamKeys {
        self.keys(shard: self.keyspace.placement(ofHash: identity.homeHash).shard)
    }

    /// Returns one shard's share of a limit of the whole installation, above 0.
    func share(of count: Int) -> Int {
        max(1, (count + self.keyspace.queueShards - 1) / self.keyspace.queueShards)
    }

    /// Returns one shard's share of what an app may have open; 0 for any number. A shard takes one command of any size.
    func share(of limits: OpenSendLimits) -> (sends: Int, bytes: Int) {
        (
            limits.sends.map { self.share(of: $0) } ?? 0,
            limits.bytes.map { max(self.share(of: $0), Limits.sendCommandBytesMax) } ?? 0
        )
    }

    func keys(ofRoute route: RouteNumber) -> StreamKeys {
        self.keys(shard: Int(route.value) % self.keyspace.queueShards)
    }

    /// Calls a function that need not be repeated after a failover.
    func call(
        _ call: some FunctionCall,
        on tag: HashTag,
        patience: Duration? = nil,
        server: RedisServerIdentity? = nil,
    ) async throws(RedisError) -> RESPNode {
        let options = RedisClient.Options(isIdempotent: true, patience: patience, server: server)
        return try await self.client.call(call, on: tag, options: options).root
    }

    /// Calls a function after any replay of its shard, and keeps the call for the next one.
    ///
    /// - Parameters:
    ///   - entry: the entry that the caller must own; nil for none.
    ///   - mayWait: true when the call may leave a little later, together with the next one.
    ///   - server: the only server that may execute it, where calls are not repeated; nil for whichever has the slot.
    ///   - repeated: returns from the answer the call to repeat after a failover; nil when nothing was written that could be missed.
    func call<Call: FunctionCall>(
        _ call: Call,
        on tag: HashTag,
        about entry: EntryName? = nil,
        mayWait: Bool = false,
        server: RedisServerIdentity? = nil,
        repeated: (RESPNode) -> (any FunctionCall)?,
    ) async throws(RedisError) -> RESPNode {
        guard let log = self.replayLogs[tag] else {
            let options = RedisClient.Options(isIdempotent: true, server: server, mayWait: mayWait)
            return try await self.client.call(call, on: tag, options: options).root
        }
        return try await log.call(call, over: self.client, about: entry, mayWait: mayWait, repeated: repeated).root
    }

    /// Calls a function about several entries, and keeps the call of each for the next replay of their shard.
    ///
    /// - Returns: the answer; nil when another process has reported about one of the entries, and nothing was called.
    func call(
        _ call: some FunctionCall,
        on tag: HashTag,
        about entries: [EntryName],
        mayWait: Bool,
        repeated: (RESPNode) -> [(any FunctionCall)?],
    ) async throws(RedisError) -> RESPNode? {
        guard let log = self.replayLogs[tag] else {
            return try await self.client.call(call, on: tag, options: .init(isIdempotent: true, mayWait: mayWait)).root
        }
        return try await log.call(call, over: self.client, about: entries, mayWait: mayWait, repeated: repeated)?.root
    }

    /// Keeps a call for the next replay of its shard, without making it: what it writes has been written by another.
    ///
    /// - Parameter byteCount: the approximate size of the call.
    func remember(_ call: some FunctionCall, byteCount: Int, on tag: HashTag) {
        self.replayLogs[tag]?.remember(call, byteCount: byteCount)
    }

    /// Does something in a shard, before the entry that it is about is acknowledged. In another shard it is acknowledged once a replica has what was
    /// done, if the streams have a barrier.
    ///
    /// - Parameter mailbox: the tag of the entry's shard.
    func replicated<Result>(
        on tag: HashTag,
        acknowledgedAt mailbox: HashTag,
        _ body: () async throws -> Result,
    ) async throws -> Result {
        guard let barrier, tag != mailbox else { return try await body() }
        try await barrier.prepare(for: [tag], acknowledgedAt: mailbox)
        let ticket = barrier.ticket()
        let result = try await body()
        try await barrier.wait(for: [tag], acknowledgedAt: mailbox, since: ticket)
        return result
    }

    /// Waits until a replica has what was written into a shard, if that is asked for.
    ///
    /// - Throws: `timedOut` when the replicas are silent; the write may be repeated.
    func confirm(_ tag: HashTag) async throws {
        guard let confirmation else { return }
        let server = try await self.replayLogs[tag]?.server()
        guard try await confirmation.confirm(tag, server: server) == .silent else { return }
        throw RedisError(.timedOut, "no replica has confirmed a report that must survive the primary")
    }

    /// Sends a command that may be repeated.
    func send(_ command: RedisCommand, on tag: HashTag) async throws(RedisError) -> RESPNode {
        try await self.client.send(command, on: tag, options: .idempotent).root
    }

    /// Reads what entries in hand rest on. A server that took over without the last writes is not asked before they are repeated there:
    /// its "nothing" would end the entries.
    func readCurrent(_ command: RedisCommand, on tag: HashTag) async throws(RedisError) -> RESPNode {
        guard let log = self.replayLogs[tag] else { return try await self.send(command, on: tag) }
        return try await log.read(command, over: self.client).root
    }

    /// Reads the ledger at that key; nil when there is none.
    func ledger(_ key: String, tag: HashTag) async throws(RedisError) -> SendLedger? {
        SendLedger(fields: try await self.send(RedisCommand("HGETALL", .text(key)), on: tag).pairs())
    }
}

/// A call that only the owner of an entry may make.
protocol OwnerCall: FunctionCall {
    /// The owner of the entry.
    var consumer: StreamConsumer { get set }
}

/// A call that ends an entry with all that became of it.
protocol EndingCall: OwnerCall {
    /// True when the server has forgotten the entry, so that nobody can own it.
    var isLost: Bool { get set }
}

/// A call that brings back entries under the ids that they had.
protocol RestoringCall: FunctionCall {}

extension CallFields {
    /// Sets the fields `group` and `consumer`.
    mutating func set(_ consumer: StreamConsumer) {
        self.set("group", consumer.group)
        self.set("consumer", consumer.name)
    }
}

extension RESPNode {
    /// Returns the texts of an array's elements, from a position on; none for null.
    ///
    /// - Throws: `unexpectedReply` for anything else, and for elements that are no text.
    func texts(from position: Int = 0) throws(RedisError) -> [String] {
        try self.elements().dropFirst(position).map { element throws(RedisError) in try element.text() }
    }

    /// Returns the fields and values of a hash, as Redis lists them; none for null. A value that is not UTF-8, such as a digest, reads
    /// as empty.
    ///
    /// - Throws: `unexpectedReply` for anything else, and for elements that are no bytes.
    func pairs() throws(RedisError) -> [(String, String)] {
        let texts = try self.elements().map { element throws(RedisError) in
            String(validating: try element.blob(), as: UTF8.self) ?? ""
        }
        return stride(from: 0, to: texts.count - 1, by: 2).map { (texts[$0], texts[$0 + 1]) }
    }
}
