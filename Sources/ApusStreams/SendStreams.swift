public import ApusCore
public import ApusMessages
public import ApusRedis

/// The stream functions, typed: one method per function of the library, each atomic in its shard.
///
/// Every one is idempotent: after any error the caller may simply ask again.
public struct SendStreams: Sendable {
    /// How Redis is reached.
    public let client: RedisClient
    /// Which shard and partition an id belongs to.
    public let keyspace: Keyspace
    /// Who is told which entries came to their end.
    let observer: (any StreamObserver)?
    /// By shard, what is to be written again after a failover.
    private let replayLogs: [HashTag: ReplayLog]

    /// The functions over that client.
    public init(client: RedisClient, keyspace: Keyspace) {
        self.init(client: client, keyspace: keyspace, observer: nil, replayLogs: [:])
    }

    private init(
        client: RedisClient,
        keyspace: Keyspace,
        observer: (any StreamObserver)?,
        replayLogs: [HashTag: ReplayLog] = [:],
    ) {
        self.client = client
        self.keyspace = keyspace
        self.observer = observer
        self.replayLogs = replayLogs
    }

    /// The same functions; the observer is told of every entry that one of them acknowledges or puts aside.
    package func observed(by observer: any StreamObserver) -> SendStreams {
        SendStreams(client: self.client, keyspace: self.keyspace, observer: observer, replayLogs: self.replayLogs)
    }

    /// The same functions; what they write into those logs' shards is written again when the server comes back without it.
    package func logged(in logs: [ReplayLog]) -> SendStreams {
        let byTag = Dictionary(uniqueKeysWithValues: logs.map { ($0.tag, $0) })
        return SendStreams(client: self.client, keyspace: self.keyspace, observer: self.observer, replayLogs: byTag)
    }

    /// Calls a function of ours, after any replay of its shard.
    ///
    /// - Parameters:
    ///   - entry: the entry that must be the caller's for it; nil: none.
    ///   - repeated: the function that repeats the call after a failover; nil: the same.
    ///   - mayWait: it may leave a little later, with the next one.
    ///   - again: from the answer, the arguments with which the call is to be repeated; nil: it need not be.
    func call(
        _ function: String,
        on tag: HashTag,
        keys: [String],
        arguments: [RedisArgument],
        of entry: EntryName? = nil,
        repeatedBy repeated: String? = nil,
        mayWait: Bool = false,
        again: (RESPNode) -> [RedisArgument]? = { _ in nil },
    ) async throws(RedisError) -> RESPReply {
        guard let log = self.replayLogs[tag] else {
            return try await self.client.call(
                function,
                on: tag,
                keys: keys,
                arguments: arguments,
                options: .init(isIdempotent: true, mayWait: mayWait),
            )
        }
        return try await log.call(
            function,
            keys: keys,
            arguments: arguments,
            over: self.client,
            of: entry,
            repeatedBy: repeated ?? function,
            mayWait: mayWait,
            again: again,
        )
    }

    /// The keys of a shard by its number.
    public func keys(shard: Int) -> StreamKeys { StreamKeys(tag: self.keyspace.tag(shard: shard)) }

    /// The home of a send: hash of the app and its idempotency key, else its id.
    public func home(app: String, _ home: String) -> StreamKeys {
        self.keys(shard: self.keyspace.placement(app: app, id: home).shard)
    }

    // MARK: Publishing

    /// What became of a publication.
    public enum Publication: Hashable, Sendable {
        /// It stands in the mailbox.
        case new(send: String, entry: String)
        /// The same key with the same body was published within a day.
        case duplicate(send: String)
        /// The same key with another body was published within a day.
        case conflict(send: String)
        /// The mailbox holds as many as it may; come back after that time.
        case full(entries: Int, comeBackMilliseconds: Int64)
    }

    /// A command on its way into its mailbox: the same bytes at every attempt.
    package struct PublishCall: Sendable {
        /// The shard that is its home.
        package let keys: StreamKeys
        /// The call.
        package let command: RedisCommand

        /// What its answer says.
        package static func publication(_ reply: RESPReply) throws -> Publication {
            let answer = reply.root
            switch answer[0].text {
            case "new": return .new(send: answer[1].text, entry: answer[2].text)
            case "duplicate": return .duplicate(send: answer[1].text)
            case "conflict": return .conflict(send: answer[1].text)
            case "full": return .full(entries: Int(answer[1].number), comeBackMilliseconds: answer[2].number)
            default: throw StreamError.unexpected(function: "apus1_publish", answer: answer[0].text)
            }
        }
    }

    /// The call that writes a command into the mailbox of its home shard. The command needs an id: it is what the publisher
    /// finds it by.
    package func publishCall(
        _ command: SendCommand,
        lane: Lane,
        mailboxEntriesMax: Int = StreamLimits.mailboxEntriesMax,
    ) throws -> PublishCall {
        precondition(!command.id.isEmpty, "a command to publish needs an id")
        let identity = SendIdentity(of: command, origin: "")
        let keys = self.home(app: command.app, identity.home)
        let call = RedisCommand.call(
            "apus1_publish",
            keys: [keys.mailbox(lane)],
            arguments: [
                .text(command.app), .text(identity.key), .text(identity.digest), .text(command.id),
                .integer(Int64(mailboxEntriesMax)), .bytes(try command.encode()),
            ],
        )
        return PublishCall(keys: keys, command: call)
    }

    /// Writes a command into the mailbox of its home shard.
    public func publish(
        _ command: SendCommand,
        lane: Lane,
        mailboxEntriesMax: Int = StreamLimits.mailboxEntriesMax,
    ) async throws -> Publication {
        let call = try self.publishCall(command, lane: lane, mailboxEntriesMax: mailboxEntriesMax)
        return try PublishCall.publication(
            try await self.client.send(call.command, on: call.keys.tag, options: .idempotent)
        )
    }

    // MARK: Intake

    /// Whether a command is to be taken.
    public enum Admission: Hashable, Sendable {
        /// Yes.
        case new
        /// It was, by the same mailbox entry.
        case again
        /// No: the key or the id names that send, with the same body.
        case duplicate(send: String)
        /// No: the key or the id names that send, with another body.
        case conflict(send: String)
    }

    /// Decides whether a direct send may go out; `again`: it has, and its ledger is kept.
    package func admit(app: String, identity: SendIdentity, origin: String) async throws -> Admission {
        let keys = self.home(app: app, identity.home)
        let arguments: [RedisArgument] = [
            .text(app), .text(identity.key), .text(identity.digest), .text(identity.send), .text(origin),
        ]
        let reply = try await self.call("apus1_admit", on: keys.tag, keys: [keys.idempotency], arguments: arguments) {
            $0[0].text == "new" ? arguments : nil
        }
        return try Self.admission(reply.root, function: "apus1_admit")
    }

    /// Takes a command that needs a plan for each of those routes. When `entry` stands in the home shard, it is acknowledged by the same
    /// call.
    package func accept(
        _ command: SendCommand,
        identity: SendIdentity,
        routes: [RouteNumber],
        from entry: StreamEntry,
        by consumer: StreamConsumer,
        due: UnixMilliseconds?,
    ) async throws -> (admission: Admission, acknowledged: Bool) {
        precondition(!routes.isEmpty, "somebody must find the recipients")
        let keys = self.home(app: command.app, identity.home)
        let isHome = entry.stream.hasPrefix(keys.tag.description)
        let fixed: [RedisArgument] = [
            .text(command.app), .text(identity.key), .text(identity.digest), .text(identity.send),
            .text(entry.origin),
            .bytes(try command.encode()), .integer(due?.value ?? 0), .text(isHome ? entry.stream : ""),
            .text(consumer.group), .text(entry.id), .integer(Int64(command.ratePerSecond)),
        ]
        let reply = try await self.call(
            "apus1_accept",
            on: keys.tag,
            keys: [keys.send(identity.send)],
            arguments: fixed + routes.map { .text($0.description) },
        ) { answer in
            guard answer[0].text == "new" else { return nil }
            let plans = answer.children.dropFirst().map(\.text)
            return fixed + zip(routes, plans).map { .text("\($0)/\($1)") }
        }
        let admission = try Self.admission(reply.root, function: "apus1_accept")
        switch admission {
        case .new, .again: if isHome { self.observer?.entriesAcknowledged(1, stream: entry.stream) }
        case .duplicate, .conflict: break
        }
        return (admission, isHome)
    }

    private static func admission(_ answer: RESPNode, function: String) throws -> Admission {
        switch answer[0].text {
        case "new": return .new
        case "again": return .again
        case "duplicate": return .duplicate(send: answer[1].text)
        case "conflict": return .conflict(send: answer[1].text)
        default: throw StreamError.unexpected(function: function, answer: answer[0].text)
        }
    }

    /// Ends a direct send: writes its outcomes and acknowledges its mailbox entry. False: another owns it now.
    ///
    /// Nobody waits for it: it leaves with the next call to that server, or by itself a few milliseconds later.
    package func conclude(
        _ entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
        batches: [OutcomeBatch],
    ) async throws -> Bool {
        var arguments: [RedisArgument] = [.text(consumer.group), .text(consumer.name), .text(entry.id)]
        for batch in batches { arguments.append(.bytes(try batch.encode())) }
        let reply = try await self.call(
            "apus1_conclude",
            on: tag,
            keys: [entry.stream],
            arguments: arguments,
            of: entry.name,
            mayWait: true,
        ) { $0.number == 1 ? arguments : nil }
        guard reply.root.number == 1 else { return false }
        self.observer?.entriesAcknowledged(1, stream: entry.stream)
        return true
    }

    /// Puts an entry aside. False: another owns it now.
    package func refuse(
        _ entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
        letter: DeadLetter?,
        receipt: SendReceipt?,
        outcomes: OutcomeBatch? = nil,
    ) async throws -> Bool {
        let arguments: [RedisArgument] = [
            .text(consumer.group), .text(consumer.name), .text(entry.id), .bytes(try letter?.encode() ?? []),
            .bytes(try receipt?.encode() ?? []), .bytes(try outcomes?.encode() ?? []),
        ]
        let reply = try await self.call(
            "apus1_refuse",
            on: tag,
            keys: [entry.stream],
            arguments: arguments,
            of: entry.name,
        ) { $0.number == 1 ? arguments : nil }
        guard reply.root.number == 1 else { return false }
        self.observer?.entriesAcknowledged(1, stream: entry.stream)
        if let letter { self.observer?.deadLetterWritten(letter.cause, stream: entry.stream) }
        return true
    }

    /// Acknowledges entries of one stream; the number that still were this consumer's.
    package func done(
        stream: String,
        entries: [String],
        by consumer: StreamConsumer,
        tag: HashTag,
    ) async throws -> Int {
        let arguments: [RedisArgument] =
            [.text(consumer.group), .text(consumer.name)] + entries.map { RedisArgument.text($0) }
        let reply = try await self.call(
            "apus1_done",
            on: tag,
            keys: [stream],
            arguments: arguments,
            of: entries.first.map { EntryName(stream: stream, id: $0) },
        ) { $0.number > 0 ? arguments : nil }
        let count = Int(reply.root.number)
        if count > 0 { self.observer?.entriesAcknowledged(count, stream: stream) }
        return count
    }

    // MARK: Reading back

    /// The ledger of a send; nil when there is none.
    ///
    /// Looks where the id alone would put it, then everywhere: a send with an idempotency key lives where that key puts it.
    public func ledger(app: String, send: String) async throws -> SendLedger? {
        let first = self.home(app: app, send)
        if let ledger = try await self.ledger(first.send(send), tag: first.tag), ledger.app == app { return ledger }
        for shard in 0..<self.keyspace.queueShards {
            let keys = self.keys(shard: shard)
            if let ledger = try await self.ledger(keys.send(send), tag: keys.tag), ledger.app == app { return ledger }
        }
        return nil
    }

    package func ledger(_ key: String, tag: HashTag) async throws -> SendLedger? {
        let reply = try await self.client.send(RedisCommand("HGETALL", [.text(key)]), on: tag)
        return SendLedger(fields: Self.pairs(reply.root))
    }

    static func pairs(_ node: RESPNode) -> [(String, String)] {
        let texts = node.children.map(\.text)
        return stride(from: 0, to: texts.count - 1, by: 2).map { (texts[$0], texts[$0 + 1]) }
    }

    /// The command of a send; nil when it has ended.
    package func body(of send: String, tag: HashTag) async throws -> SendCommand? {
        let keys = StreamKeys(tag: tag)
        let reply = try await self.client.send(RedisCommand("GET", [.text(keys.body(send))]), on: tag)
        guard !reply.root.isNull else { return nil }
        return try SendCommand.decode(reply.root.blob)
    }

    /// A route's number, the same one ever after.
    package func number(of route: Route) async throws -> RouteNumber {
        let reply = try await self.client.call(
            "apus1_route",
            on: HashTag(ofKey: StreamKeys.routes),
            keys: [StreamKeys.routes],
            arguments: [.text(route.description)],
        )
        return RouteNumber(UInt32(reply.root.number))
    }

    /// Every route that ever had a number, with its name "shop/apns/production", in the order of the numbers.
    package func routes() async throws -> [(number: RouteNumber, name: String)] {
        let command = RedisCommand("HGETALL", .text(StreamKeys.routes))
        let tag = HashTag(ofKey: StreamKeys.routes)
        let texts = try await self.client.send(command, on: tag, options: .idempotent).root.children.map(\.text)
        var routes: [(number: RouteNumber, name: String)] = []
        for index in stride(from: 0, to: texts.count - 1, by: 2) where texts[index] != "#" {
            if let number = UInt32(texts[index + 1]) { routes.append((RouteNumber(number), texts[index])) }
        }
        return routes.sorted { $0.number < $1.number }
    }
}
