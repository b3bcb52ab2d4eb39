package import ApusCore
internal import ApusMessages
package import ApusRedis

/// Finds and ends sends of which something was lost, as after a Redis that came back without its last writes.
package struct LostSends: Sendable {
    let access: StreamAccess

    /// The result of looking at a send that has not ended.
    package enum CloseResult: String, Hashable, Sendable {
        /// The send is complete, or forgotten.
        case gone
        /// The send changed not long ago.
        case fresh
        /// The send changed during the call.
        case moved
        /// A part of the send waits, or is in hand.
        case left
        /// Too much waits in the shard to search it for the send.
        case much
        /// Nothing was left of the send, so its remaining recipients are closed.
        case closed
    }

    /// Returns true when nobody looked for lost sends in a shard within that time, so that the caller is to do it.
    package func beginSweep(tag: HashTag, withinMilliseconds: Int64) async throws -> Bool {
        let call = BeginSweepCall(keys: [StreamKeys(tag: tag).swept], periodMilliseconds: withinMilliseconds)
        return try await self.access.call(call, on: tag).number() == 1
    }

    /// Returns the sends of a shard that have not ended, a page at a time.
    ///
    /// - Returns: the cursor of the next page ("0" after the last one), and sends; one may come twice.
    package func openSends(tag: HashTag, cursor: String) async throws -> (cursor: String, sends: [SendKey]) {
        let command = RedisCommand(
            "SSCAN",
            .text(StreamKeys(tag: tag).openSends),
            .text(cursor),
            "COUNT",
            .integer(StreamLimits.openSendsPerRead)
        )
        let answer = try await self.access.send(command, on: tag)
        return (try answer[0].text(), try answer[1].texts().compactMap { SendKey($0) })
    }

    /// Ends a send if nothing is left of it: recipients without an outcome fail as `unknown`, on the app's first route, since theirs are
    /// not known. The batch with these outcomes takes the same way as any other, to the ledger and the receipt.
    ///
    /// - Parameters:
    ///   - silenceMilliseconds: the time in which the send may not have changed.
    ///   - routes: all routes.
    package func close(
        _ send: SendKey,
        tag: HashTag,
        silenceMilliseconds: Int64,
        routes: [NumberedRoute],
        now: UnixMilliseconds,
    ) async throws -> CloseResult {
        let keys = StreamKeys(tag: tag)
        guard let ledger = try await self.access.ledger(keys.send(send), tag: tag), ledger.state != .done else {
            _ = try await self.access.send(
                RedisCommand("SREM", .text(keys.openSends), .text(send.description)),
                on: tag
            )
            return .gone
        }
        // This check comes before any large read. A change that lies in the future does not count: the clock was set back.
        let ages = [ledger.acceptedAt, ledger.lastAt].compactMap { $0 }.map { now.milliseconds(since: $0) }
        if ages.contains(where: { (0..<silenceMilliseconds).contains($0) }) { return .fresh }
        let own = routes.compactMap { numbered in
            Route(numbered.name).flatMap { $0.app.text == send.app ? (number: numbered.number, route: $0) : nil }
        }
        let closed = ledger.counts.reduce(0) { $0 + $1.count }
        let call = CloseLostSendCall(
            keys: [keys.send(send)],
            silenceMilliseconds: silenceMilliseconds,
            planned: "\(ledger.planned)",
            closed: "\(closed)",
            unitPrefix: Self.text(ofField: 1, send.description),
            outcomesPrefix: Self.text(ofField: 1, send.id) + Self.text(ofField: 2, send.app),
            outcomes: try await self.closing(send, ledger, own.first, tag, now).encode(),
            streams: own.flatMap { number, _ in
                ["plan:\(number)"] + Lane.allCases.map { StreamKeys.workName(number, $0) }
            },
        )
        let answer = try await self.access.call(call, on: tag).text()
        guard let result = CloseResult(rawValue: answer) else {
            throw StreamError.unexpected(function: CloseLostSendCall.function, answer: answer)
        }
        return result
    }

    /// Encodes a text of less than 128 bytes as a protobuf field. Messages begin with their fields in the order of their numbers.
    private static func text(ofField number: UInt8, _ text: String) -> [UInt8] {
        [number << 3 | 2, UInt8(text.utf8.count)] + Array(text.utf8)
    }

    /// Returns the batch that closes the remaining recipients of a send.
    private func closing(
        _ send: SendKey,
        _ ledger: SendLedger,
        _ way: (number: RouteNumber, route: Route)?,
        _ tag: HashTag,
        _ now: UnixMilliseconds,
    ) async throws -> OutcomeBatch {
        // Every app that has ever sent has a route.
        let (number, provider) = (way?.number ?? RouteNumber(1), way?.route.provider ?? Provider.allCases[0])
        var batch = OutcomeBatch(send: send.id, app: send.app, route: number, provider: provider)
        let open = ledger.total(.open)
        if open > 0 {
            batch.counts = [OutcomeCount(provider: provider, outcome: .failed, reason: .unknown, count: open)]
            (batch.firstAt, batch.lastAt) = (now, now)
        }
        if let command = try? await Mailboxes(access: self.access).command(of: send, tag: tag) {
            batch.replyTo = command.replyTo
            batch.receiptLevel = command.receiptLevel
            batch.traceparent = command.traceparent
            batch.tracestate = command.tracestate
            batch.publishedAtNanoseconds = command.publishedAtNanoseconds
            batch.idUse = SendIdentity.idUse(of: command)
        }
        return batch
    }
}

struct BeginSweepCall: FunctionCall {
    static let function = "apus2_begin_sweep"
    var keys: [String]
    var periodMilliseconds: Int64

    func set(_ fields: inout CallFields) {
        fields.set("period_ms", self.periodMilliseconds)
    }
}

struct CloseLostSendCall: FunctionCall {
    static let function = "apus2_close_lost_send"
    var keys: [String]
    var silenceMilliseconds: Int64
    var planned: String
    var closed: String
    var unitPrefix: [UInt8]
    var outcomesPrefix: [UInt8]
    var outcomes: [UInt8]
    var streams: [String]

    func set(_ fields: inout CallFields) {
        fields.set("silence_ms", self.silenceMilliseconds)
        fields.set("planned", self.planned)
        fields.set("closed", self.closed)
        fields.set("unit_prefix", CallBytes(self.unitPrefix))
        fields.set("outcomes_prefix", CallBytes(self.outcomesPrefix))
        fields.set("outcomes", CallBytes(self.outcomes))
        fields.set("streams", self.streams)
    }
}
