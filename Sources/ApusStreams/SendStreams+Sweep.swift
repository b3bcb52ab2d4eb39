package import ApusCore
internal import ApusMessages
package import ApusRedis

extension SendStreams {
    /// What a look at a send that has not ended led to.
    package enum Sweeping: String, Hashable, Sendable {
        /// It is complete, or forgotten.
        case gone
        /// Something happened to it lately.
        case fresh
        /// Something happened to it just now.
        case moved
        /// Something of it waits, or is in hand.
        case left
        /// Too much waits in its shard to look for it.
        case much
        /// Nothing was left of it: its rest is closed.
        case closed
    }

    /// Whether nobody looked for lost sends in a shard within that time: then it is the caller's to do.
    package func beginSweep(tag: HashTag, withinMilliseconds: Int64) async throws -> Bool {
        let reply = try await self.client.call(
            "apus1_sweep_begin",
            on: tag,
            keys: [StreamKeys(tag: tag).swept],
            arguments: [.integer(withinMilliseconds)],
        )
        return reply.root.number == 1
    }

    /// Sends of a shard that have not ended, a page at a time.
    ///
    /// - Returns: where to go on ("0": that was all), and ids; one may come twice.
    package func openSends(tag: HashTag, cursor: String) async throws -> (cursor: String, sends: [String]) {
        let command = RedisCommand(
            "SSCAN",
            .text(StreamKeys(tag: tag).sends),
            .text(cursor),
            "COUNT",
            .integer(StreamLimits.openSendsPerRead)
        )
        let reply = try await self.client.send(command, on: tag, options: .idempotent).root
        return (reply[0].text, reply[1].children.map(\.text))
    }

    /// Ends a send if nothing is left of it: recipients without an outcome fail as `unknown`, on the app's first route, since it is
    /// not known which was theirs. The batch that says so takes the way of all outcomes: ledger, receipt and all.
    ///
    /// - Parameters:
    ///   - silenceMilliseconds: for how long nothing may have happened to it.
    ///   - routes: all there are.
    package func sweep(
        _ send: String,
        tag: HashTag,
        silenceMilliseconds: Int64,
        routes: [(number: RouteNumber, name: String)],
        now: UnixMilliseconds,
    ) async throws -> Sweeping {
        let keys = StreamKeys(tag: tag)
        guard let ledger = try await self.ledger(keys.send(send), tag: tag), ledger.state != .done else {
            _ = try await self.client.send(RedisCommand("SREM", .text(keys.sends), .text(send)), on: tag)
            return .gone
        }
        // Before anything is read of it that may be large. A time to come is none: the clock was set back.
        let ages = [ledger.acceptedAt, ledger.lastAt].compactMap { $0 }.map { now.milliseconds(since: $0) }
        if ages.contains(where: { (0..<silenceMilliseconds).contains($0) }) { return .fresh }
        let own = routes.compactMap { number, name in
            Route(name).flatMap { $0.app.text == ledger.app ? (number: number, route: $0) : nil }
        }
        let batch = try await self.closing(send, ledger, own.first, tag, now)
        let streams = own.flatMap { number, _ in
            ["plan:\(number)"] + Lane.allCases.map { StreamKeys.workName(number, $0) }
        }
        let closed = ledger.counts.reduce(0) { $0 + $1.count }
        let reply = try await self.client.call(
            "apus1_sweep",
            on: tag,
            keys: [keys.send(send)],
            arguments: [
                .integer(silenceMilliseconds), .text("\(ledger.planned)"), .text("\(closed)"),
                // Field 1 of every message of a send is its id, and it is written first.
                .bytes([0x0a, UInt8(send.utf8.count)] + Array(send.utf8)), .bytes(try batch.encode()),
            ] + streams.map { RedisArgument.text($0) },
        )
        guard let sweeping = Sweeping(rawValue: reply.root.text) else {
            throw StreamError.unexpected(function: "apus1_sweep", answer: reply.root.text)
        }
        return sweeping
    }

    /// What closes the rest of a send.
    private func closing(
        _ send: String,
        _ ledger: SendLedger,
        _ way: (number: RouteNumber, route: Route)?,
        _ tag: HashTag,
        _ now: UnixMilliseconds,
    ) async throws -> OutcomeBatch {
        // Every app that ever sent has a route.
        let (number, provider) = (way?.number ?? RouteNumber(1), way?.route.provider ?? Provider.apns)
        var batch = OutcomeBatch(send: send, app: ledger.app, route: number, provider: provider)
        let open = ledger.total(.open)
        if open > 0 {
            batch.counts = [OutcomeCount(provider: provider, outcome: .failed, reason: .unknown, count: open)]
            (batch.firstAt, batch.lastAt) = (now, now)
        }
        if let command = try? await self.body(of: send, tag: tag) {
            batch.replyTo = command.replyTo
            batch.receiptLevel = command.receiptLevel
            batch.traceparent = command.traceparent
            batch.tracestate = command.tracestate
            batch.publishedAtNanoseconds = command.publishedAtNanoseconds
        }
        return batch
    }
}
