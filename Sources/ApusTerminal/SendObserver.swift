internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
package import ApusPublisher
internal import ApusRedis
package import ApusStreams

/// Reads the status of a send: from its ledger, and for direct sends, which have none, from the receipts.
package struct SendObserver: Sendable {
    private static let entriesPerRead: Int64 = 1_000
    /// The maximum of commands of a mailbox that are read at once: each may have 256 KiB.
    private static let commandsPerRead: Int64 = 100
    /// The time between two searches for obstacles, and for a command that no dispatcher has read.
    private static let searchInterval = Duration.seconds(1)

    /// A stream of receipts, and the position from which it is read next.
    private struct Receipts {
        var key: String
        var tag: HashTag
        var cursor: String
    }

    private let streams: SendStreams
    /// The app of the send; nil until it is known.
    package private(set) var app: String?
    /// The id of the send.
    package let send: String
    /// The streams that may have its receipts: those of the shards, and the one that its command names.
    private var receipts: [Receipts]
    private let receiptsAfter: String
    /// The time at which its command was published; nil when that is not known, or the same command may have been published before.
    private var publishedAtNanoseconds: Int64?
    /// The mailbox entry with its command; nil until it is known.
    private var place: (mailbox: String, tag: HashTag, entry: String)?

    /// Creates an observer.
    ///
    /// - Parameters:
    ///   - app: the send's app; nil for any, if only one app has the send.
    ///   - receiptsAfter: the id of an entry that is older than the send.
    package init(_ streams: SendStreams, app: String?, send: String, receiptsAfter: String = "0") {
        self.streams = streams
        self.app = app
        self.send = send
        self.receiptsAfter = receiptsAfter
        self.receipts = (0..<streams.keyspace.queueShards).map { shard in
            let keys = streams.keys(shard: shard)
            return Receipts(key: keys.receipts, tag: keys.tag, cursor: receiptsAfter)
        }
    }

    /// Returns the current status of the send.
    ///
    /// - Throws: the error of a server that is away when no other tells the status.
    package mutating func look() async throws -> SendStatus {
        var silence: RedisError?
        do {
            if let ledger = try await self.ledger() {
                // A direct send with retries gets a ledger later; until then it has neither.
                return SendStatus(send: self.send, ledger: ledger, now: SystemClock().now())
            }
        } catch let error as RedisError where error.saysServerIsAway && self.app != nil {
            // All servers were asked for a ledger, and a direct send has none.
            silence = error
        }
        // The streams of a publication stand last.
        for index in self.receipts.indices.reversed() {
            do {
                if let status = try await self.readReceipts(index) { return status }
            } catch let error as RedisError where error.saysServerIsAway {
                silence = silence ?? error
            }
        }
        if let silence { throw silence }
        return SendStatus(send: self.send)
    }

    /// Returns the counts of events that apps have reported for the send so far; nil when the user of Redis may not read them.
    package mutating func tally() async throws -> ClientEventCounts? {
        if self.app == nil { _ = try await self.ledger() }
        guard let app else { return ClientEventCounts() }
        let (events, send) = (self.streams.events, self.send)
        return try await RedisError.skippingForbidden { try await events.counts(app: app, send: send) }
    }

    private mutating func ledger() async throws -> SendLedger? {
        if let app { return try await self.streams.outcomes.ledger(app: app, send: self.send) }
        let found = try await self.streams.control.find(send: self.send).map(\.ledger)
        guard found.count <= 1 else { throw Self.ambiguity(of: self.send, apps: found.map(\.app)) }
        self.app = found.first?.app
        return found.first
    }

    /// Returns the failure of a command that names a send by its id only, when several apps have a send of that id.
    package static func ambiguity(of send: String, apps: [String]) -> CommandFailure {
        CommandFailure("\(send) is a send of several apps (\(apps.joined(separator: ", "))): name one with --app")
    }

    private mutating func readReceipts(_ index: Int) async throws -> SendStatus? {
        while true {
            let (key, tag) = (self.receipts[index].key, self.receipts[index].tag)
            let command = RedisCommand(
                "XREAD",
                "COUNT",
                .integer(Self.entriesPerRead),
                "STREAMS",
                .text(key),
                .text(self.receipts[index].cursor),
            )
            let reply = try await self.streams.client.send(command, on: tag, options: .idempotent)
            guard let entries = reply.root.element(0)?.element(1), entries.count > 0 else { return nil }
            for entry in entries.children {
                self.receipts[index].cursor = entry.element(0)?.string ?? self.receipts[index].cursor
                let bytes = entry.element(1)?.element(1)?.bytes ?? []
                guard let receipt = try? SendReceipt.decode(bytes), receipt.send == self.send,
                    self.app == nil || receipt.app.isEmpty || receipt.app == self.app,
                    let status = self.status(in: receipt)
                else { continue }
                if self.app == nil, !receipt.app.isEmpty { self.app = receipt.app }
                return status
            }
            guard entries.count == Self.entriesPerRead else { return nil }
        }
    }

    /// Returns the status in a receipt that ends the send; nil for others.
    ///
    /// The refusal of a command that was published earlier under its id does not: after it the command was a new send. That its id is another
    /// command's ends it only if that is said of its own command.
    private func status(in receipt: SendReceipt) -> SendStatus? {
        guard let publishedAtNanoseconds, receipt.kind == .refused, receipt.publishedAtNanoseconds > 0,
            receipt.publishedAtNanoseconds <= publishedAtNanoseconds
        else { return SendStatus(receipt: receipt) }
        guard receipt.publishedAtNanoseconds == publishedAtNanoseconds else { return nil }
        guard receipt.tellsOfAnotherCommand, let problem = receipt.problem else { return SendStatus(receipt: receipt) }
        var status = SendStatus(send: self.send)
        (status.phase, status.problem) = (.refused(problem), problem)
        return status
    }

    // MARK: The mailboxes

    /// Looks for the command of the send in all mailboxes, where it stands until a dispatcher has taken it or, if it is a direct one, has
    /// ended it. The stream of receipts that it names is observed from then on.
    ///
    /// - Returns: false when no mailbox has it.
    private mutating func findCommand() async throws -> Bool {
        if let (mailbox, tag, entry) = self.place {
            let command = RedisCommand("XRANGE", .text(mailbox), .text(entry), .text(entry))
            return try await self.streams.client.send(command, on: tag, options: .idempotent).root.count > 0
        }
        // A user who may not read the list may not read the mailboxes of those in it, either.
        let list = self.streams.publishers
        let publishers = try await RedisError.skippingForbidden { try await list.all() } ?? []
        for shard in 0..<self.streams.keyspace.queueShards {
            let keys = self.streams.keys(shard: shard)
            for mailbox in Lane.allCases.flatMap({ keys.mailboxes($0, publishers) }) {
                guard let (entry, head) = try await self.command(in: mailbox, keys.tag) else { continue }
                self.place = (mailbox, keys.tag, entry)
                if self.app == nil, !head.app.isEmpty { self.app = head.app }
                self.observeReceipts(in: self.replyStream(of: head, in: mailbox, keys))
                return true
            }
        }
        return false
    }

    /// Returns the stream that a command's receipts go to; empty for the home shard's.
    private func replyStream(of head: CommandHead, in mailbox: String, _ keys: StreamKeys) -> String {
        guard let publisher = keys.lane(ofMailbox: mailbox)?.publisher else { return head.replyTo }
        let isOwn = StreamKeys.isReceipts(head.replyTo, of: publisher)
        return isOwn ? head.replyTo : StreamKeys.receipts(of: publisher)
    }

    private func command(in mailbox: String, _ tag: HashTag) async throws -> (entry: String, head: CommandHead)? {
        var start = "-"
        while true {
            let command = RedisCommand(
                "XRANGE",
                .text(mailbox),
                .text(start),
                "+",
                "COUNT",
                .integer(Self.commandsPerRead),
            )
            let entries = try await self.streams.client.send(command, on: tag, options: .idempotent).root
            for entry in entries.children {
                let id = entry.element(0)?.string ?? ""
                start = "(\(id)"
                let message = entry.element(1)?.element(1)?.bytes ?? []
                let head = CommandHead(reading: message)
                let send = SendIdentity.send(
                    id: head.id,
                    source: StreamEntry(stream: mailbox, id: id, message: message).source
                )
                guard send == self.send, self.app == nil || head.app == self.app else { continue }
                return (id, head)
            }
            guard entries.count == Self.commandsPerRead else { return nil }
        }
    }

    /// Observes the stream of receipts that a command names; empty for none.
    mutating func observeReceipts(in replyTo: String) {
        guard !replyTo.isEmpty, !self.receipts.contains(where: { $0.key == replyTo }) else { return }
        self.observeReceipts(in: replyTo, after: self.receiptsAfter)
    }

    /// Observes a stream of receipts behind an entry, and no longer behind any other.
    private mutating func observeReceipts(in stream: String, after entry: String) {
        self.receipts.removeAll { $0.key == stream }
        self.receipts.append(Receipts(key: stream, tag: HashTag(ofKey: stream), cursor: entry))
    }

    /// Returns the status of a send of which there is neither a ledger nor a receipt yet.
    ///
    /// - Throws: `CommandFailure` when no mailbox has its command either.
    private mutating func status(ofWaiting status: SendStatus) async throws -> SendStatus {
        guard try await !self.findCommand() else { return status }
        // It may have been taken between the two.
        let again = try await self.look()
        guard again.phase == .waiting else { return again }
        let app = self.app.map { " of \($0)" } ?? ""
        throw CommandFailure(
            "nothing is known of a send \(self.send)\(app): check the id and --app. What became of a send is known for three days; "
                + "of a small one whose command named a stream for its receipts, or asked for none, it is not known here"
        )
    }

    // MARK: Following

    /// Polls until the send is complete or the time has passed, and shows its progress. While Redis is away it goes on polling.
    ///
    /// - Parameters:
    ///   - patience: the time limit; nil for none.
    ///   - obstacles: returns what keeps the send from going on; it is asked once a second.
    /// - Returns: the last status, which is incomplete when the time has passed, and the obstacles at that moment.
    /// - Throws: `CommandFailure` when nothing is known of the send.
    package mutating func follow(
        within patience: Duration?,
        display: ProgressDisplay,
        obstacles: (SendObserver, SendStatus) async throws -> [SendObstacle] = { _, _ in [] },
    ) async throws -> (status: SendStatus, obstacles: [SendObstacle]) {
        var display = display
        var status = SendStatus(send: self.send)
        var window = RateWindow()
        let clock = ContinuousClock()
        let start = clock.now
        var (searchedAt, found) = (start - Self.searchInterval, [SendObstacle]())
        while true {
            var current = found
            do {
                status = try await self.look()
                if !status.isOver, clock.now - searchedAt >= Self.searchInterval {
                    searchedAt = clock.now
                    if status.phase == .waiting { status = try await self.status(ofWaiting: status) }
                    current = status.isOver ? [] : try await obstacles(self, status)
                }
            } catch let error as RedisError where error.isPassing {
                current = [
                    SendObstacle(id: "redis", sentence: "Redis does not answer (\(error.message)): it is asked again")
                ]
            }
            for obstacle in SendObstacle.new(current, since: found) { display.announce(obstacle.sentence) }
            found = current
            let time = (clock.now - start) / .seconds(1)
            window.note(status.closed, at: time)
            let line = ProgressLine.text(
                status,
                rate: status.isOver ? nil : window.rate,
                isObstructed: !found.isEmpty,
            )
            guard !status.isOver else {
                display.finish(line)
                return (status, [])
            }
            display.show(line, at: time)
            if let patience, clock.now - start >= patience {
                display.finish(line)
                return (status, found)
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}

extension SendObserver {
    /// Creates an observer of a publication.
    package init(_ publisher: Publisher, _ publication: Publication) {
        self.init(
            publisher.installation.streams,
            app: publication.app,
            send: publication.send,
            receiptsAfter: publication.after,
        )
        if publication.after != "0" { self.publishedAtNanoseconds = publication.publishedAtNanoseconds }
        // The other shards have nothing from before it, and may have much of others.
        for stream in [publication.homeReceipts, publication.receipts] {
            self.observeReceipts(in: stream, after: publication.wellBefore)
        }
    }
}

/// Describes what keeps a send from going on.
package struct SendObstacle: Hashable, Sendable {
    /// The obstacle's name, which stays while it lasts: the sentence may tell for how long.
    package let id: String
    /// The cause and the cure.
    package let sentence: String

    /// Creates an obstacle.
    package init(id: String, sentence: String) {
        self.id = id
        self.sentence = sentence
    }

    /// Returns those of some obstacles that were not among earlier ones.
    static func new(_ current: [SendObstacle], since earlier: [SendObstacle]) -> [SendObstacle] {
        let known = Set(earlier.map(\.id))
        return current.filter { !known.contains($0.id) }
    }
}
