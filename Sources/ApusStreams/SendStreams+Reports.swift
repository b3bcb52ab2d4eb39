package import ApusCore
package import ApusMessages
internal import ApusRedis

/// What those who have no Redis ask and tell: where a send stands, and what happened to notifications.
extension SendStreams {
    /// Where a send stands; nil: nothing is known of it any more, or ever was.
    ///
    /// Read from its ledger; a direct send has none, and is told by the receipts that were written since its command was. The
    /// id must be what the send was published by: one that had an idempotency key beside it is found by its ledger only.
    package func status(app: AppID, send: SendID) async throws -> SendStatus? {
        if let ledger = try await self.ledger(app: app.text, send: send.text) {
            return SendStatus(send: send.text, ledger: ledger)
        }
        let keys = self.home(app: app.text, send.text)
        let reply = try await self.client.call(
            "apus1_known",
            on: keys.tag,
            keys: [keys.idempotency],
            arguments: [.text(app.text), .text("id:\(send)")],
            readOnly: true,
        )
        guard reply.root.count == 2 else { return nil }
        let origin = reply.root[1].text
        let written = origin.lastIndex(of: "/").map { String(origin[origin.index(after: $0)...]) } ?? ""
        // Receipts are written later than the command, by the same server's clock.
        var start = written.isEmpty ? "-" : written
        for _ in 0..<(StreamLimits.statusReceiptsMax / Self.receiptsPerRead) {
            let command = RedisCommand(
                "XRANGE",
                .text(keys.receipts),
                .text(start),
                "+",
                "COUNT",
                .integer(Self.receiptsPerRead),
            )
            let entries = try await self.client.send(command, on: keys.tag, options: .idempotent).root
            for entry in entries.children {
                start = "(" + entry[0].text
                guard let receipt = try? SendReceipt.decode(entry[1][1].blob), receipt.send == send.text,
                    receipt.app == app.text, let status = SendStatus(receipt: receipt)
                else { continue }
                return status
            }
            guard entries.count == Self.receiptsPerRead else { break }
        }
        return SendStatus(send: send.text)
    }

    private static let receiptsPerRead = 1_000

    /// Appends events of one send to the events of its home.
    ///
    /// - Returns: whether there was room.
    package func report(_ events: [ClientEvent], app: AppID, send: String) async throws -> Bool {
        let keys = self.home(app: app.text, send)
        var arguments: [RedisArgument] = [.integer(StreamLimits.eventEntriesMax)]
        for event in events { arguments.append(.bytes(try event.encode())) }
        let reply = try await self.client.call(
            "apus1_report",
            on: keys.tag,
            keys: [keys.events],
            arguments: arguments,
        )
        switch reply.root[0].text {
        case "new": return true
        case "full": return false
        default: throw StreamError.unexpected(function: "apus1_report", answer: reply.root[0].text)
        }
    }
}
