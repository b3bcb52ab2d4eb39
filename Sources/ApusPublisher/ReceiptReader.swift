internal import ApusInstallation
public import ApusMessages
internal import ApusRedis
internal import ApusStreams

/// Reads the receipts of one send as they arrive, each once.
///
/// It has a connection of its own, which the caller must close.
public final class ReceiptReader: Sendable {
    private static let entriesPerRead = 100
    /// The longest blocking time of a read, so that a lost server is noticed.
    private static let blockMax = Duration.seconds(1)

    /// Names where a reading began.
    private enum Start {
        /// At the publication.
        case publication
        /// A minute before it: where Redis' clock has gone back, receipts have ids before that of their command.
        case wellBefore
        /// At the stream's oldest entry, behind which nothing is.
        case beginning
    }

    /// Describes how far a reading has come.
    private struct Reading {
        var start: Start
        /// The entry that was read last.
        var last: String
        /// True once any entry has come: then none comes below it any more, because the ids of a stream never fall.
        var hasRead = false
        /// The ids of the receipts that were passed on.
        var seen: Set<String> = []
    }

    private let connection: RedisBlockingConnection
    private let publication: Publication

    init(_ publication: Publication, client: RedisClient) {
        self.publication = publication
        self.connection = client.blockingConnection(for: HashTag(ofKey: publication.receipts))
    }

    /// Closes the connection.
    public func close() async { await self.connection.close() }

    /// Passes receipts to `body`, in order, until it has enough or the time has passed.
    ///
    /// - Parameters:
    ///   - patience: the time limit; nil for none.
    ///   - body: returns true to go on.
    /// - Returns: true when `body` had enough.
    /// - Throws: `unavailable` or `refused`; `CancellationError` becomes `timedOut`.
    public func read(
        within patience: Duration?,
        _ body: (SendReceipt) throws -> Bool,
    ) async throws(PublisherError) -> Bool {
        let clock = ContinuousClock()
        let begun = clock.now
        let deadline = patience.map { begun + $0 }
        // From then on what is behind is read, too, also while receipts of others come without end.
        let turn = begun + min(Self.blockMax, patience.map { $0 / 2 } ?? Self.blockMax)
        let after = self.publication.after
        var reading = Reading(start: after == "0" ? .beginning : .publication, last: after)
        while true {
            guard !Task.isCancelled else { throw PublisherError(.timedOut, "cancelled") }
            let remaining = deadline.map { $0 - clock.now } ?? Self.blockMax
            guard remaining > .zero else { return false }
            do {
                let blocking = reading.start == .publication ? min(remaining, turn - clock.now) : remaining
                let entries = try await self.entries(after: reading.last, blocking: min(blocking, Self.blockMax))
                reading.last = entries.last?.id ?? reading.last
                reading.hasRead = reading.hasRead || !entries.isEmpty
                guard try self.pass(entries, &reading, to: body) else { return true }
                guard reading.start == .publication, entries.isEmpty || clock.now >= turn else { continue }
                reading.start = .wellBefore
                guard reading.hasRead else {
                    reading.last = self.publication.wellBefore
                    continue
                }
                let earlier = try await self.entriesBefore()
                guard try self.pass(earlier, &reading, to: body) else { return true }
            } catch {
                throw PublisherError(error)
            }
        }
    }

    /// Passes those receipts of some entries to `body` that are the send's, each once. Returns false when it has enough.
    private func pass(
        _ entries: [Entry],
        _ reading: inout Reading,
        to body: (SendReceipt) throws -> Bool,
    ) throws -> Bool {
        for entry in entries {
            guard let receipt = entry.receipt, self.isOurs(receipt, since: reading.start),
                reading.seen.insert(receipt.id).inserted
            else { continue }
            if receipt.tellsOfRepetition {
                // The command stood in the mailbox twice, or it was published before: then its receipts may have come before it.
                guard reading.start != .beginning else { continue }
                (reading.start, reading.last) = (.beginning, "0")
                return true
            }
            guard try body(receipt) else { return false }
        }
        return true
    }

    /// Returns whether a receipt is one of the send's.
    ///
    /// That of a command that was published earlier under the same id is not, since a command of that id may then be a new send. From the
    /// beginning it is: the same command may have been published before.
    private func isOurs(_ receipt: SendReceipt, since start: Start) -> Bool {
        guard receipt.send == self.publication.send, receipt.app.isEmpty || receipt.app == self.publication.app else {
            return false
        }
        guard start != .beginning, receipt.publishedAtNanoseconds > 0 else { return true }
        return receipt.publishedAtNanoseconds >= self.publication.publishedAtNanoseconds
    }

    private struct Entry {
        var id: String
        /// The receipt; nil for one of a later version, and for other entries.
        var receipt: SendReceipt?
    }

    private func entries(after last: String, blocking: Duration) async throws -> [Entry] {
        let milliseconds = max(1, Int64(blocking / .milliseconds(1)))
        let command = RedisCommand(
            "XREAD",
            "COUNT",
            .integer(Int64(Self.entriesPerRead)),
            "BLOCK",
            .integer(milliseconds),
            "STREAMS",
            .text(self.publication.receipts),
            .text(last),
        )
        let reply = try await self.connection.send(command, blocking: .milliseconds(milliseconds))
        return Self.entries(reply.root.element(0)?.element(1))
    }

    /// Returns the entries of the minute before the publication that have receipts of the send, in order.
    ///
    /// Only the newest are searched: where entries come behind the publication soon, Redis' clock has gone back by little.
    private func entriesBefore() async throws -> [Entry] {
        var (found, next) = ([Entry](), self.publication.after)
        for _ in 0..<(StreamLimits.statusNewestReceiptsMax / Self.entriesPerRead) {
            let command = RedisCommand(
                "XREVRANGE",
                .text(self.publication.receipts),
                .text(next),
                .text(self.publication.wellBefore),
                "COUNT",
                .integer(Self.entriesPerRead),
            )
            let page = Self.entries(try await self.connection.send(command, blocking: .zero).root)
            found += page.filter { $0.receipt?.send == self.publication.send }
            guard page.count == Self.entriesPerRead, let last = page.last else { break }
            next = "(\(last.id)"
        }
        return found.reversed()
    }

    private static func entries(_ reply: RESPNode?) -> [Entry] {
        guard let reply else { return [] }
        return reply.children.compactMap { entry in
            guard let id = entry.element(0)?.string else { return nil }
            let bytes = entry.element(1)?.element(1)?.bytes ?? []
            return Entry(id: id, receipt: try? SendReceipt.decode(bytes))
        }
    }
}

extension Publisher {
    /// Returns a reader of a publication's receipts.
    public func receipts(of publication: Publication) -> ReceiptReader {
        ReceiptReader(publication, client: self.installation.client)
    }

    /// Waits for the receipt that ends a send: final, or a refusal with its problem.
    ///
    /// - Throws: `timedOut` when none comes in time; the send goes on.
    public func finalReceipt(
        of publication: Publication,
        within patience: Duration,
    ) async throws(PublisherError) -> SendReceipt {
        let reader = self.receipts(of: publication)
        var found: SendReceipt?
        do throws(PublisherError) {
            _ = try await reader.read(within: patience) { receipt in
                guard [.final, .refused, .dryRun].contains(receipt.kind) else { return true }
                found = receipt
                return false
            }
        } catch {
            await reader.close()
            throw error
        }
        await reader.close()
        guard let found else {
            let text =
                "no final receipt of \(publication.send) within \(patience): are dispatcher and feedback running?"
            throw PublisherError(.timedOut, text)
        }
        return found
    }
}
