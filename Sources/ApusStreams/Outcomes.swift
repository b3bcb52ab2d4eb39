package import ApusCore
package import ApusMessages
package import ApusRedis

/// The rules for reports of a send under way: one follows the last after an interval, and only when enough was done since. So a slow send
/// is not reported again and again without news, and a fast one of a million recipients not a thousand times.
package struct ProgressRules: Hashable, Sendable {
    /// The least time between two reports, in milliseconds.
    package var everyMilliseconds: Int64
    /// The percentage of the recipients found so far that must have ended since the last one.
    package var percent: Int

    /// Creates rules.
    package init(everyMilliseconds: Int64, percent: Int) {
        precondition(everyMilliseconds >= 0 && (1...100).contains(percent))
        self.everyMilliseconds = everyMilliseconds
        self.percent = percent
    }
}

/// Outcomes of sends: their ledgers and receipts.
public struct Outcomes: Sendable {
    let access: StreamAccess

    /// The result of applying a batch of outcomes.
    package enum ApplyResult: Hashable, Sendable {
        /// The ledger moved, the batch is acknowledged.
        case ok
        /// The ledger moved and the send is complete: write the final receipt, then acknowledge.
        case final(SendLedger)
        /// The ledger moved, the batch is acknowledged, and it is time to report how far the send is.
        case progress(SendLedger)
        /// Another owns the batch.
        case lost
        /// There is no such send any more, or it was complete before; acknowledged.
        case gone
    }

    /// Moves the ledger of a send by one batch and acknowledges it: both or neither.
    ///
    /// - Parameters:
    ///   - progress: when to report a send that is under way; nil: never.
    ///   - server: the only server that may do it; nil for whichever has the slot.
    package func apply(
        _ batch: OutcomeBatch,
        entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
        keepMilliseconds: Int64,
        progress: ProgressRules? = nil,
        server: RedisServerIdentity? = nil,
    ) async throws -> ApplyResult {
        let call = ApplyOutcomesCall(
            keys: [entry.stream, StreamKeys(tag: tag).send(batch.sendKey)],
            consumer: consumer,
            entry: entry.name,
            firstMilliseconds: batch.firstAt?.value,
            lastMilliseconds: batch.lastAt?.value,
            retentionMilliseconds: keepMilliseconds,
            names: batch.counts.map { SendLedger.field($0) },
            counts: batch.counts.map { Int64($0.count) },
            progress: progress,
        )
        let answer = try await self.access.call(call, on: tag, server: server)
        switch try answer[0].text() {
        case "ok":
            self.access.observer?.entriesAcknowledged(1, stream: entry.stream)
            return .ok
        case "progress":
            self.access.observer?.entriesAcknowledged(1, stream: entry.stream)
            guard let ledger = SendLedger(fields: try answer[1].pairs()) else { return .ok }
            return .progress(ledger)
        case "lost": return .lost
        case "gone":
            self.access.observer?.entriesAcknowledged(1, stream: entry.stream)
            return .gone
        case "final":
            guard let ledger = SendLedger(fields: try answer[1].pairs()) else { return .gone }
            return .final(ledger)
        default: throw StreamError.unexpected(function: ApplyOutcomesCall.function, answer: try answer[0].text())
        }
    }

    /// Writes a receipt: into the publisher's own stream if it named one that can take it, else into the shard's. Where what it is about is
    /// acknowledged in another slot, a replica has it when this returns, if the streams have a barrier.
    ///
    /// - Parameters:
    ///   - tag: the tag of the shard whose receipts the publisher reads else.
    ///   - acknowledged: the tag of the shard where what it is about is acknowledged; nil for that one.
    ///   - server: the only server that may take it into the publisher's own stream; nil for whichever has the stream.
    ///   - home: the only server that may take it into the shard's; nil for whichever has the slot.
    /// - Returns: the error for which the publisher's own stream can take no receipt, however often it is tried; nil when there was none.
    @discardableResult
    package func write(
        _ receipt: SendReceipt,
        replyTo: String,
        tag: HashTag,
        acknowledgedAt acknowledged: HashTag? = nil,
        server: RedisServerIdentity? = nil,
        home: RedisServerIdentity? = nil,
    ) async throws -> RedisError? {
        let (receipt, acknowledged, barrier) = (try receipt.encode(), acknowledged ?? tag, self.access.barrier)
        var refusal: RedisError?
        if !replyTo.isEmpty {
            let call = WriteReplyCall(keys: [replyTo], receipt: receipt, entriesMax: StreamLimits.replyEntriesMax)
            let ticket = barrier?.ticket()
            do throws(RedisError) {
                _ = try await self.access.call(call, on: HashTag(ofKey: replyTo), server: server)
            } catch {
                // The key is of another kind, or our user may not write it.
                guard error.code == .noPermission || error.disposition == .giveBack else { throw error }
                refusal = error
            }
            if refusal == nil {
                // The receipt stands there: without a replica it is written there again, and nowhere else.
                guard let barrier, let ticket else { return nil }
                try await barrier.wait(forReplyIn: replyTo, acknowledgedAt: acknowledged, since: ticket)
                return nil
            }
        }
        let call = WriteReceiptCall(keys: [StreamKeys(tag: tag).receipts], receipt: receipt)
        try await self.access.replicated(on: tag, acknowledgedAt: acknowledged) {
            _ = try await self.access.call(call, on: tag, server: home)
        }
        return refusal
    }

    // MARK: Reading back

    /// Returns the ledger of a send; nil when there is none.
    ///
    /// Looks where the id alone would put it, then everywhere: a send with an idempotency key lives where that key puts it. Where commands
    /// with different keys have the same id, it is the sum of their ledgers, unless one of them is where the id alone would put it.
    ///
    /// - Throws: the error of a server that is away when no other has the send.
    public func ledger(app: String, send: String) async throws -> SendLedger? {
        let (home, key) = (self.access.home(app: app, send), SendKey(app: app, id: send))
        do throws(RedisError) {
            if let ledger = try await self.access.ledger(home.send(key), tag: home.tag) { return ledger }
        } catch {
            guard error.saysServerIsAway else { throw error }
        }
        return try await SendControl(access: self.access).find(app: app, send: send)?.ledger
    }

    /// Returns the ledger in that key; nil when there is none.
    package func ledger(_ key: String, tag: HashTag) async throws -> SendLedger? {
        try await self.access.ledger(key, tag: tag)
    }

    /// Returns the state of a send; nil when nothing is known of it any more, or ever was.
    ///
    /// Read from its ledger; a direct send has none, and its status is in the receipts of its home. The id must be what the send was
    /// published by: one that had an idempotency key beside it is found by its ledger only. A receipt behind as many others, or as many bytes
    /// of them, as are searched is not found, nor is one that went elsewhere. Without one a send is waiting as long as there may be one yet.
    ///
    /// - Throws: the error of a server that is away when no other knows of the send.
    package func status(app: AppID, send: SendID, now: UnixMilliseconds) async throws -> SendStatus? {
        let (home, key) = (self.access.home(app: app.text, send.text), SendKey(app: app.text, id: send.text))
        var (origin, stage, failure) = (String?.none, CommandStage.ended, RedisError?.none)
        do throws(RedisError) {
            if let ledger = try await self.access.ledger(home.send(key), tag: home.tag) {
                return SendStatus(send: send.text, ledger: ledger, now: now)
            }
            origin = try await Mailboxes(access: self.access).origin(app: app.text, send: send.text)
            if let origin {
                let place = CommandPlace(origin)
                // It is asked first: once the command has ended, the receipt is there, if it ever is.
                stage = try await self.stage(of: key, place, in: home)
                if let status = try await self.receipt(of: key, in: home, .since(place.time)) { return status }
                // Nothing is before the time 0, and Redis refuses to look there.
                if stage != .published, place.time > 0,
                    let status = try await self.receipt(of: key, in: home, .before(place))
                {
                    return status
                }
            }
        } catch {
            guard error.saysServerIsAway else { throw error }
            failure = error
        }
        let isHomeAway = failure != nil
        do {
            if let found = try await SendControl(access: self.access).find(app: app.text, send: send.text) {
                return SendStatus(send: send.text, ledger: found.ledger, now: now)
            }
        } catch let error as RedisError where error.saysServerIsAway {
            // A home that knows the send, and has no ledger, is asked alone: nobody else has one.
            if origin == nil { failure = failure ?? error }
        }
        // The id of a command is forgotten before a receipt is.
        if origin == nil, !isHomeAway, let status = try await self.receipt(of: key, in: home, .newest) { return status }
        if let failure { throw failure }
        return stage == .ended ? nil : SendStatus(send: send.text)
    }

    /// Names the entry in which the command of a send was published.
    private struct CommandPlace {
        let origin: String
        let mailbox: String
        let entry: String

        /// Reads "<stream>/<entry>".
        init(_ origin: String) {
            self.origin = origin
            let slash = origin.lastIndex(of: "/") ?? origin.endIndex
            self.mailbox = String(origin[..<slash])
            self.entry = String(origin[slash...].dropFirst())
        }

        /// The milliseconds of the entry's id.
        var time: Int64 { Int64(self.entry.prefix { $0 != "-" }) ?? 0 }
    }

    /// Names how far the command of a direct send is.
    private enum CommandStage {
        /// It stands in its mailbox.
        case published
        /// It has left its mailbox, and feedback may not have counted its outcomes, which a receipt may follow.
        case uncounted
        /// It has its receipt, if it gets one at all.
        case ended
    }

    private func stage(
        of send: SendKey,
        _ place: CommandPlace,
        in home: StreamKeys,
    ) async throws(RedisError) -> CommandStage {
        let range = RedisCommand("XRANGE", .text(place.mailbox), .text(place.entry), .text(place.entry))
        if try await self.access.send(range, on: HashTag(ofKey: place.mailbox)).count > 0 { return .published }
        // The batches may be large: where many wait they are not read.
        let length = RedisCommand("XLEN", .text(home.outcomes))
        let count = try await self.access.send(length, on: home.tag).number()
        guard count > 0 else { return .ended }
        guard count < StreamLimits.statusOutcomesMax else { return .uncounted }
        let waiting = RedisCommand(
            "XRANGE",
            .text(home.outcomes),
            "-",
            "+",
            "COUNT",
            .integer(StreamLimits.statusOutcomesMax),
        )
        let batches = try await self.access.send(waiting, on: home.tag)
        // More may have come between the two.
        guard batches.count < StreamLimits.statusOutcomesMax else { return .uncounted }
        for entry in try batches.elements() {
            let message = try entry[1][1].blob()
            if (try? OutcomeBatch.decode(message))?.sendKey == send { return .uncounted }
        }
        return .ended
    }

    /// Names the receipts among which a direct send's is searched.
    private enum ReceiptSearch {
        /// Receipts since a time in milliseconds, in order: they are written later than their command, by the same server's clock.
        case since(Int64)
        /// Receipts before a command, the last first: that clock may have gone back since it was written.
        case before(CommandPlace)
        /// The newest receipts, the last first.
        case newest

        /// The command that reads them.
        var command: String {
            switch self {
            case .since: "XRANGE"
            case .before, .newest: "XREVRANGE"
            }
        }

        /// The number of them that are read at most.
        var countMax: Int {
            switch self {
            case .since, .before: StreamLimits.statusReceiptsMax
            case .newest: StreamLimits.statusNewestReceiptsMax
            }
        }

        /// The first and the last of them.
        var bounds: (first: String, last: String) {
            switch self {
            case .since(let time): ("\(time)", "+")
            case .before(let place):
                ("(\(place.time)-0", "\(max(0, place.time - StreamLimits.clockSkewMaxMilliseconds))")
            case .newest: ("+", "-")
            }
        }

        /// Returns whether a receipt may be the one that is searched. Before a command may be the refusal of an earlier one that had its id,
        /// after which that was a new send; the id of a refusal names the entry of the command.
        func admits(_ receipt: SendReceipt) -> Bool {
            guard case .before(let place) = self, receipt.kind == .refused else { return true }
            return receipt.id.hasPrefix("refused:\(place.origin)#")
        }
    }

    /// Returns the status in the receipts of a direct send's home; nil when there is none among those that are searched.
    private func receipt(
        of send: SendKey,
        in home: StreamKeys,
        _ search: ReceiptSearch,
    ) async throws(RedisError) -> SendStatus? {
        let bounds = search.bounds
        var (next, byteCount) = (bounds.first, 0)
        for _ in 0..<(search.countMax / StreamLimits.statusReceiptsPerRead) {
            let command = RedisCommand(
                search.command,
                .text(home.receipts),
                .text(next),
                .text(bounds.last),
                "COUNT",
                .integer(StreamLimits.statusReceiptsPerRead),
            )
            let entries = try await self.access.send(command, on: home.tag)
            for entry in try entries.elements() {
                next = "(\(try entry[0].text())"
                let message = try entry[1][1].blob()
                byteCount += message.count
                guard let receipt = try? SendReceipt.decode(message), receipt.send == send.id,
                    receipt.app == send.app, search.admits(receipt), let status = SendStatus(receipt: receipt)
                else { continue }
                return status
            }
            guard entries.count == StreamLimits.statusReceiptsPerRead, byteCount < StreamLimits.statusReceiptBytesMax
            else { break }
        }
        return nil
    }
}

struct ApplyOutcomesCall: FunctionCall {
    static let function = "apus2_apply_outcomes"
    var keys: [String]
    var consumer: StreamConsumer
    var entry: EntryName
    var firstMilliseconds: Int64?
    var lastMilliseconds: Int64?
    var retentionMilliseconds: Int64
    var names: [String]
    var counts: [Int64]
    var progress: ProgressRules?

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entry", self.entry.id)
        fields.set("first_ms", optional: self.firstMilliseconds)
        fields.set("last_ms", optional: self.lastMilliseconds)
        fields.set("retention_ms", self.retentionMilliseconds)
        fields.set("names", self.names, default: [])
        fields.set("counts", self.counts, default: [])
        fields.set("progress_every_ms", optional: self.progress?.everyMilliseconds)
        fields.set("progress_percent", self.progress?.percent ?? 0, default: 0)
        fields.set("entry_digest", self.entry.digestText, default: "")
    }
}

struct WriteReceiptCall: FunctionCall {
    static let function = "apus2_write_receipt"
    var keys: [String]
    var receipt: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("receipt", CallBytes(self.receipt))
    }
}

struct WriteReplyCall: FunctionCall {
    static let function = "apus2_write_reply"
    var keys: [String]
    var receipt: [UInt8]
    var entriesMax: Int

    func set(_ fields: inout CallFields) {
        fields.set("receipt", CallBytes(self.receipt))
        fields.set("entries_max", self.entriesMax)
    }
}
