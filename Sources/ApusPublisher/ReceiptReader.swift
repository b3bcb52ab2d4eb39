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
        var last = self.publication.after
        var start = last == "0" ? Start.beginning : Start.publication
        var seen: Set<String> = []
        read: while true {
            guard !Task.isCancelled else { throw PublisherError(.timedOut, "cancelled") }
            let remaining = deadline.map { $0 - clock.now } ?? Self.blockMax
            guard remaining > .zero else { return false }
            do {
                let blocking = start == .publication ? min(remaining, turn - clock.now) : remaining
                let entries = try await self.entries(after: last, blocking: min(blocking, Self.blockMax))
                for entry in entries {
                    last = entry.id
                    guard let receipt = entry.receipt, self.isOurs(receipt, since: start),
                        seen.insert(receipt.id).inserted
                    else { continue }
                    if receipt.tellsOfRepetition {
                        // The command stood in the mailbox twice, or it was published before: then its receipts may have come before it.
                        guard start != .beginning else { continue }
                        (start, last) = (.beginning, "0")
                        continue read
                    }
                    guard try body(receipt) else { return true }
                }
                if start == .publication, entries.isEmpty || clock.now >= turn {
                    (start, last) = (.wellBefore, self.publication.wellBefore)
                }
            } catch {
                throw PublisherError(error)
            }
        }
    }

    /// Returns whether a receipt is one of the send's.
    ///
    /// The refusal of a command that was published earlier under the same id is not, since a command of that id may then be a new send. From
    /// the beginning it is: the same command may have been published before.
    private func isOurs(_ receipt: SendReceipt, since start: Start) -> Bool {
        guard receipt.send == self.publication.send, receipt.app.isEmpty || receipt.app == self.publication.app else {
            return false
        }
        guard start != .beginning, receipt.kind == .refused, receipt.publishedAtNanoseconds > 0 else { return true }
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
        guard let stream = reply.root.element(0), let entries = stream.element(1) else { return [] }
        return entries.children.compactMap { entry in
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
