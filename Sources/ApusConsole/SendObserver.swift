internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
package import ApusPublisher
internal import ApusRedis
package import ApusStreams

/// Reads the status of a send: from its ledger, and for direct sends, which have none, from the receipts.
package struct SendObserver: Sendable {
    private static let receiptsPerRead = 1_000

    private let streams: SendStreams
    /// The app of the send; nil until it is known.
    private var app: String?
    private let send: String
    /// The positions from which each shard's receipts are read next.
    private var cursors: [String]

    /// Creates an observer.
    ///
    /// - Parameters:
    ///   - app: the send's app; nil for any, if only one app has the send.
    ///   - receiptsAfter: the id of an entry that is older than the send.
    package init(_ streams: SendStreams, app: String?, send: String, receiptsAfter: String = "0") {
        self.streams = streams
        self.app = app
        self.send = send
        self.cursors = Array(repeating: receiptsAfter, count: streams.keyspace.queueShards)
    }

    /// Returns the current status of the send.
    package mutating func look() async throws -> SendStatus {
        if let ledger = try await self.ledger() {
            let status = SendStatus(send: self.send, ledger: ledger)
            // A direct send with retries gets a ledger later; until then it has neither.
            return status
        }
        for shard in self.cursors.indices {
            if let status = try await self.readReceipts(shard) { return status }
        }
        return SendStatus(send: self.send)
    }

    /// Returns the counts of events that apps have reported for the send so far.
    package mutating func tally() async throws -> ClientEventCounts {
        if self.app == nil { _ = try await self.ledger() }
        guard let app else { return ClientEventCounts() }
        return try await self.streams.events.counts(app: app, send: self.send)
    }

    private mutating func ledger() async throws -> SendLedger? {
        if let app { return try await self.streams.outcomes.ledger(app: app, send: self.send) }
        let found = try await self.streams.control.find(app: nil, send: self.send).map(\.ledger)
        guard found.count <= 1 else { throw Self.ambiguity(of: self.send, apps: found.map(\.app)) }
        self.app = found.first?.app
        return found.first
    }

    /// Returns the failure of a command that names a send by its id only, when several apps have a send of that id.
    package static func ambiguity(of send: String, apps: [String]) -> CommandFailure {
        CommandFailure("\(send) is a send of several apps (\(apps.joined(separator: ", "))): name one with --app")
    }

    private mutating func readReceipts(_ shard: Int) async throws -> SendStatus? {
        let keys = self.streams.keys(shard: shard)
        while true {
            let command = RedisCommand(
                "XREAD",
                "COUNT",
                .integer(Int64(Self.receiptsPerRead)),
                "STREAMS",
                .text(keys.receipts),
                .text(self.cursors[shard]),
            )
            let reply = try await self.streams.client.send(command, on: keys.tag, options: .idempotent)
            guard let entries = reply.root.element(0)?.element(1), entries.count > 0 else { return nil }
            for entry in entries.children {
                self.cursors[shard] = entry.element(0)?.string ?? self.cursors[shard]
                let bytes = entry.element(1)?.element(1)?.bytes ?? []
                guard let receipt = try? SendReceipt.decode(bytes), receipt.send == self.send,
                    self.app == nil || receipt.app.isEmpty || receipt.app == self.app,
                    let status = SendStatus(receipt: receipt)
                else { continue }
                return status
            }
            guard entries.count == Self.receiptsPerRead else { return nil }
        }
    }

    /// Polls until the send is complete or the time has passed, and shows its progress.
    ///
    /// - Parameter patience: the time limit; nil for none.
    /// - Returns: the last status, which is incomplete when the time has passed.
    package mutating func follow(
        within patience: Duration?,
        display: ProgressDisplay,
        each: (SendStatus) -> Void = { _ in },
    ) async throws -> SendStatus {
        var display = display
        var window = RateWindow()
        let clock = ContinuousClock()
        let start = clock.now
        while true {
            let status = try await self.look()
            let time = (clock.now - start) / .seconds(1)
            window.note(status.closed, at: time)
            each(status)
            guard !status.isOver else {
                display.finish(ProgressLine.text(status, rate: nil))
                return status
            }
            display.show(ProgressLine.text(status, rate: window.rate), at: time)
            if let patience, clock.now - start >= patience {
                display.finish(ProgressLine.text(status, rate: window.rate))
                return status
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
    }
}
