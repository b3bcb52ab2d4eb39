import ApusCore
import ApusInstallation
import ApusMessages
import ApusMetrics
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

@testable import ApusFeedback

@Suite struct OutcomeHandlerTests {
    private func with(
        deletingSuspectsAfter delay: Int64 = 600_000,
        _ body: (Installation, RedisClient, OutcomeHandler, StoredDevice) async throws -> Void
    ) async throws {
        try await HandlerFixture.with(deletingSuspectsAfter: delay) { fixture in
            try await body(fixture.installation, fixture.client, fixture.handler, fixture.device)
        }
    }

    private func batch(_ device: StoredDevice, asOf: UnixMilliseconds, token: [UInt8]? = nil) -> OutcomeBatch {
        var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
        batch.counts = [OutcomeCount(provider: .apns, outcome: .unregistered, reason: .unregistered, count: 1)]
        batch.unregistered = [
            TokenVerdict(
                place: .device(device.reference),
                tokenDigest: DeviceToken.digest(token ?? device.record.token),
                asOf: asOf,
                reason: .unregistered,
                providerReason: "Unregistered",
            )
        ]
        batch.isFinal = true
        batch.planned = 1
        return batch
    }

    private func deliver(
        _ batch: OutcomeBatch,
        _ client: RedisClient,
        _ handler: OutcomeHandler
    ) async throws -> StreamEntry {
        try await HandlerFixture.deliver(batch, client, handler)
    }

    private func receipts(_ client: RedisClient, _ handler: OutcomeHandler) async throws -> [SendReceipt] {
        try await HandlerFixture.receipts(client, handler)
    }

    @Test func `D16 A token that the provider calls dead is pruned, and its receipt says how many`() async throws {
        try await self.with { installation, client, handler, device in
            let batch = self.batch(device, asOf: device.registeredAt.advanced(byMilliseconds: 1))
            let entry = try await self.deliver(batch, client, handler)
            try await handler.handle(entry)
            let gone = try await installation.store.get(try AppID("shop"), try DeviceID("d"))
            #expect(gone == nil)
            let receipts = try await self.receipts(client, handler)
            #expect(receipts.map(\.kind) == [.final] && receipts.first?.counts == batch.counts)
            let left = try await client.send(.init("XLEN", .text(handler.keys.outcomes)), on: handler.keys.tag)
            #expect(left.root.integer == 0)
        }
    }

    @Test func `D17 A token registered again since stays`() async throws {
        try await self.with { installation, client, handler, device in
            let batch = self.batch(device, asOf: device.registeredAt.advanced(byMilliseconds: -1))
            try await handler.handle(try await self.deliver(batch, client, handler))
            let kept = try await installation.store.get(try AppID("shop"), try DeviceID("d"))
            #expect(kept?.record.token == device.record.token)
        }
    }

    @Test func `D17 A token registered again after its verdict, and before the verdict is handled, stays`()
        async throws
    {
        try await self.with { installation, client, handler, device in
            let (store, app) = (installation.store, try AppID("shop"))
            let again = DeviceRegistration(device: "old", provider: .apns, token: String(repeating: "cd", count: 32))
            func at(_ milliseconds: Int64) -> UnixMilliseconds {
                device.registeredAt.advanced(byMilliseconds: milliseconds)
            }
            let old = try await store.register(app, again, asOf: at(-600_000)).device
            #expect(old.registeredAt == at(-600_000))
            #expect(try await store.register(app, again, asOf: at(-100_000)).change == .unchanged)
            try await handler.handle(try await self.deliver(self.batch(old, asOf: at(-300_000)), client, handler))
            #expect(try await store.get(app, try DeviceID("old"))?.registeredAt == at(-100_000))
        }
    }

    @Test func `Another token than the one that was sent to stays`() async throws {
        try await self.with { installation, client, handler, device in
            let later = device.registeredAt.advanced(byMilliseconds: 60_000)
            try await handler.handle(
                try await self.deliver(self.batch(device, asOf: later, token: [1, 2, 3]), client, handler)
            )
            let kept = try await installation.store.get(try AppID("shop"), try DeviceID("d"))
            #expect(kept != nil)
        }
    }

    /// A batch in which the device's token is called bad.
    private func suspicion(_ device: StoredDevice, _ reason: Reason = .badToken) -> OutcomeBatch {
        var batch = self.batch(device, asOf: device.registeredAt.advanced(byMilliseconds: 1))
        batch.counts = [OutcomeCount(provider: .apns, outcome: .rejected, reason: reason, count: 1)]
        batch.suspects = batch.unregistered
        batch.suspects[0].reason = reason
        batch.unregistered = []
        return batch
    }

    @Test func `A suspect is marked, kept, and counted once, however often its batch comes`() async throws {
        try await self.with { installation, client, handler, device in
            let entry = try await self.deliver(self.suspicion(device), client, handler)
            // Ended before the acknowledgement: the next feedback does it all again.
            let batch = try OutcomeBatch.decode(entry.message)
            let route = try #require(Route("shop/apns/production"))
            _ = try await handler.massFailureGuard.applyVerdicts(of: batch, on: route)
            try await handler.handle(entry)
            try await handler.handle(entry)
            let kept = try await installation.store.get(try AppID("shop"), try DeviceID("d"))
            #expect(kept?.record.suspicion?.reason == .badToken)
            let state = try await installation.streams.quarantine.state(of: RouteNumber(1))
            #expect(state.tokens == 1 && state.quarantinedAt == nil)
            try await handler.massFailureGuard.sweep()
            let unmoved = try await installation.store.get(try AppID("shop"), try DeviceID("d"))
            #expect(unmoved == kept)
        }
    }

    /// A batch in which a message was refused for the device's token, or accepted.
    private func refusal(_ device: StoredDevice, _ reason: Reason, after milliseconds: Int64) -> OutcomeBatch {
        var batch = self.suspicion(device, reason)
        (batch.refusals, batch.suspects) = (batch.suspects, [])
        batch.refusals[0].asOf = device.registeredAt.advanced(byMilliseconds: milliseconds)
        batch.counts = [
            OutcomeCount(provider: .apns, outcome: .rejected, reason: .payload, count: 1),
            OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 100),
        ]
        return batch
    }

    @Test func `D110 A token whose every message is refused for a day is deleted, and none that had one accepted`()
        async throws
    {
        try await self.with(deletingSuspectsAfter: 1) { installation, client, handler, device in
            let (app, day) = (try AppID("shop"), StoreLimits.refusalsMilliseconds)
            let route = try #require(Route("shop/apns/production"))
            #expect(try await installation.streams.routes.number(of: route) == RouteNumber(1))
            func record() async throws -> DeviceRecord? {
                try await installation.store.get(app, try DeviceID("d"))?.record
            }
            func apply(_ reason: Reason, after milliseconds: Int64) async throws {
                let batch = self.refusal(device, reason, after: milliseconds)
                // Ended before the acknowledgement: the next feedback does it all again.
                _ = try await handler.massFailureGuard.applyVerdicts(of: batch, on: route)
                try await handler.handle(try await self.deliver(batch, client, handler))
            }
            func tokensInQuarantine() async throws -> Int {
                try await installation.streams.quarantine.state(of: RouteNumber(1)).tokens
            }
            let noted = DeviceRecord.Suspicion(
                since: device.registeredAt.advanced(byMilliseconds: 1),
                reason: DeviceRecord.Suspicion.refusedMessage,
            )
            try await apply(.payload, after: 1)
            try await apply(.payload, after: day)
            #expect(try await record()?.suspicion == noted)
            // An acceptance from before the refusal says nothing; a later one ends it.
            try await apply(.none, after: 0)
            #expect(try await record()?.suspicion == noted)
            try await apply(.none, after: day + 1)
            #expect(try await record()?.suspicion == nil)
            try await apply(.payload, after: day + 2)
            #expect(try await record()?.suspicion?.since == device.registeredAt.advanced(byMilliseconds: day + 2))
            #expect(try await tokensInQuarantine() == 0)
            try await apply(.payload, after: 2 * day + 2)
            #expect(try await record()?.suspicion?.reason == .badToken)
            #expect(try await tokensInQuarantine() == 1)
            try await eventually("the token is deleted") {
                try await handler.massFailureGuard.sweep()
                return try await record() == nil
            }
        }
    }

    @Test(arguments: [false, true], [Reason.badToken, .wrongTopic])
    func `D4 D6 A suspect is deleted from its app when it has waited, unless it registered again`(
        isBack: Bool,
        reason: Reason,
    ) async throws {
        try await self.with(deletingSuspectsAfter: 1) { installation, client, handler, device in
            let route = try #require(Route("shop/apns/production"))
            #expect(try await installation.streams.routes.number(of: route) == RouteNumber(1))
            // Another app has the same token; nothing was said of that.
            let token = String(repeating: "ab", count: 32)
            let other = try AppID("other")
            let same = DeviceRegistration(device: "d", provider: .apns, token: token)
            _ = try await installation.store.register(other, same)
            var batch = self.suspicion(device, reason)
            batch.counts.append(OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 100))
            try await handler.handle(try await self.deliver(batch, client, handler))
            if isBack {
                let again = DeviceRegistration(device: "d", provider: .apns, token: token)
                _ = try await installation.store.register(route.app, again)
            }
            try await eventually("the list of suspects is empty") {
                try await handler.massFailureGuard.sweep()
                return try await installation.streams.quarantine.state(of: RouteNumber(1)).tokens == 0
            }
            let kept = try await installation.store.get(route.app, try DeviceID("d"))
            #expect((kept != nil) == isBack)
            #expect(kept?.record.suspicion == nil)
            let elsewhere = try await installation.store.get(other, try DeviceID("d"))
            #expect(elsewhere?.record.token == device.record.token && elsewhere?.record.suspicion == nil)
        }
    }

    @Test func `Outcomes count and receipts are written although reply_to names a key that takes none`() async throws {
        try await HandlerFixture.with { fixture in
            let replyTo = "\(StreamKeys.replyPrefix)shop"
            _ = try await fixture.client.send(RedisCommand("SET", .text(replyTo), "x"), on: HashTag(ofKey: replyTo))
            try await fixture.makeLedger(of: "s", planned: 1)
            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
            let place = RecipientPlace.device(fixture.device.reference)
            batch.recipients = [
                RecipientOutcome(place: place, outcome: .accepted, reason: .none, at: UnixMilliseconds(1))
            ]
            batch.receiptLevel = .recipients
            batch.unit = "u"
            batch.replyTo = replyTo
            try await fixture.apply(batch)
            #expect(try await fixture.receipts().map(\.kind) == [.recipients, .final])
            let keys = fixture.handler.keys
            let key = keys.send(SendKey(app: "shop", id: "s"))
            #expect(try await fixture.installation.streams.outcomes.ledger(key, tag: keys.tag)?.state == .done)
            let left = try await fixture.client.send(.init("XLEN", .text(keys.outcomes)), on: keys.tag)
            #expect(left.root.integer == 0)
        }
    }

    /// Sums the outcomes that the handler has counted.
    private func counted(_ handler: OutcomeHandler) async -> (outcomes: Int64, reasons: Int64) {
        let metrics = handler.metrics
        return (
            handler.shared.value(of: metrics.outcomes[.apns, .failed]),
            handler.shared.value(of: metrics.reasons[.apns, .noRoute])
        )
    }

    @Test func `A batch is counted once by who acknowledges it, with its reason, however often it ends its send`()
        async throws
    {
        try await HandlerFixture.with { fixture in
            let handler = fixture.handler
            try await fixture.makeLedger(of: "s", planned: 3)
            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .failed, reason: .noRoute, count: 3)]
            let entry = try await self.deliver(batch, fixture.client, handler)
            // Ended before the acknowledgement: the next feedback gets the same answer and counts.
            _ = try await handler.streams.outcomes.apply(
                batch,
                entry: entry,
                by: handler.consumer,
                tag: handler.keys.tag,
                keepMilliseconds: 60_000,
                progress: nil,
            )
            for _ in 0..<2 { try await handler.handle(entry) }
            let counted = await self.counted(handler)
            #expect(counted == (3, 3))
        }
    }

    @Test func `An entry that is not a batch becomes a dead letter and blocks nothing`() async throws {
        try await self.with { _, client, handler, _ in
            try await handler.handle(try await HandlerFixture.deliver([0xff, 0xff], client, handler))
            let dead = try await client.send(.init("XRANGE", .text(handler.keys.dead), "-", "+"), on: handler.keys.tag)
            let letter = try DeadLetter.decode(dead.root[0][1][1].bytes ?? [])
            #expect(letter.cause == .malformed && letter.service == "feedback" && letter.payload == [0xff, 0xff])
        }
    }
}
