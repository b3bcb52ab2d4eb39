import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStreams

@Suite struct FullRedisTests {
    private static let route = RouteNumber(7)

    @Test func `A full Redis accepts nothing new, and finishes what it has accepted`() async throws {
        try await StreamsFixture.with { fixture in
            let (streams, me) = (fixture.streams, fixture.consumer("me"))
            let command = fixture.command(id: "s", key: "k")
            let identity = SendIdentity(of: command, source: "")
            let keys = streams.home(app: "shop", identity.home)
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
            let (plan, work) = (keys.plan(Self.route), keys.work(Self.route, .bulk))
            try await reader.ensure([keys.mailbox(.bulk), plan, work, keys.outcomes])
            guard case .new = try await streams.mailboxes.publish(command, lane: .bulk) else {
                throw Unexpected("not new")
            }
            _ = try await fixture.server.command("CONFIG", "SET", "maxmemory", "1")

            await Self.expectFull { _ = try await streams.mailboxes.publish(fixture.command(id: "t"), lane: .bulk) }

            // A dispatcher that starts now asks for the numbers of its routes first.
            let shop = Route(app: try AppID("shop"), provider: .apns, environment: .production)
            #expect(try await streams.routes.number(of: shop).value > 0)

            func next(_ stream: String) async throws -> StreamEntry {
                try #require(try await reader.read(stream, count: 1).first)
            }
            // The leave that a direct send would ask for.
            let mail = try await next(keys.mailbox(.bulk))
            let own = SendIdentity(of: command, source: mail.origin)
            #expect(try await fixture.admit(command, mail.origin) == .new)
            let accepted = try await streams.mailboxes.accept(
                command,
                identity: own,
                routes: [Self.route],
                from: mail,
                by: me,
                due: nil
            )
            #expect(accepted.admission == .new && accepted.acknowledged)

            var step = Plans.Step(from: "", to: "list:1", outcomes: Self.batch([]))
            step.units = [
                WorkUnit(
                    send: "shop/s",
                    route: Self.route,
                    recipients: .references([DeviceReference(partition: 0, ordinal: 0, generation: 1)])
                )
            ]
            step.isLast = true
            let planned = try await next(plan)
            #expect(try await streams.plans.advance(step, send: "shop/s", entry: planned, by: me, tag: keys.tag) == .ok)
            let verdict = try await streams.work.record(
                try await next(work),
                of: "shop/s",
                by: me,
                tag: keys.tag,
                journal: UnitJournal(sequence: 1, bitmap: [1]),
                outcomes: Self.batch([OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]),
                next: .finish,
            )
            #expect(verdict.state == .running)
            var ledger: SendLedger?
            for entry in try await reader.read(keys.outcomes, count: 10) {
                let batch = try OutcomeBatch.decode(entry.message)
                let application = try await streams.outcomes.apply(
                    batch,
                    entry: entry,
                    by: me,
                    tag: keys.tag,
                    keepMilliseconds: 60_000
                )
                if case .final(let last) = application { ledger = last }
            }
            #expect(ledger?.planned == 1 && ledger?.total(.accepted) == 1)

            let receipt = SendReceipt(id: "r", send: "s", app: "shop", kind: .final)
            let replies = "\(StreamKeys.replyPrefix)shop"
            try await streams.outcomes.write(receipt, replyTo: "", tag: keys.tag)
            try await streams.outcomes.write(receipt, replyTo: replies, tag: keys.tag)
            let written = RedisCommand("XLEN", .text(replies))
            #expect(try await fixture.client.send(written, on: HashTag(ofKey: replies)).root.integer == 1)
            #expect(try await fixture.client.send(.init("XLEN", .text(keys.receipts)), on: keys.tag).root.integer == 1)
        }
    }

    @Test
    func `A full Redis creates missing groups, and one stream that cannot have its own blocks no other`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let keys = fixture.keys
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: fixture.consumer("me"))
            let strange = keys.work(Self.route, .express)
            _ = try await fixture.client.send(RedisCommand("SET", .text(strange), "no stream"), on: keys.tag)
            _ = try await fixture.server.command("CONFIG", "SET", "maxmemory", "1")
            let streams = [keys.mailbox(.bulk), strange, keys.outcomes]
            await #expect(throws: RedisError.self) { try await reader.ensure(streams) }
            #expect(try await reader.ensure([keys.mailbox(.bulk), keys.outcomes]) == 0)
            #expect(try await reader.ensure([keys.mailbox(.express), keys.outcomes]) == 1)
            #expect(try await reader.read(keys.mailbox(.express), count: 1).isEmpty)
            #expect(try await fixture.streams.lostSends.beginSweep(tag: keys.tag, withinMilliseconds: 60_000))
        }
    }

    @Test func `At a full Redis an operator can stop and resume a route, and replay a dead letter`() async throws {
        try await StreamsFixture.with { fixture in
            let (streams, me, keys) = (fixture.streams, fixture.consumer("me"), fixture.keys)
            let events = keys.events
            let entry = try await fixture.deliver([1], to: events, consumer: me)
            let letter = DeadLetter(
                stream: events,
                entry: entry.id,
                cause: .poison,
                problem: Problem(code: "poison", detail: "test"),
                payload: [1],
                at: UnixMilliseconds(1)
            )
            #expect(
                try await streams.deadLetters.write(entry, by: me, tag: keys.tag, letter: letter, receipt: nil)
            )
            let stored = try #require(try await streams.deadLetters.page(shard: 0, before: "+").letters.first)
            _ = try await fixture.server.command("CONFIG", "SET", "maxmemory", "1")
            try await streams.routes.control(Self.route, .pause)
            #expect(try await streams.routes.state(of: Self.route).isPaused)
            try await streams.routes.control(Self.route, .resume)
            #expect(try await !streams.routes.state(of: Self.route).isPaused)
            guard case .replayed = try await streams.deadLetters.replay(stored) else {
                throw Unexpected("not replayed")
            }
            #expect(try await fixture.length(events) == 1)
        }
    }

    private static func batch(_ counts: [OutcomeCount]) -> OutcomeBatch {
        var batch = OutcomeBatch(send: "s", app: "shop", route: Self.route, provider: .apns)
        batch.counts = counts
        return batch
    }

    private static func expectFull(_ body: () async throws -> Void) async {
        await #expect {
            try await body()
        } throws: {
            ($0 as? RedisError)?.code == .outOfMemory
        }
    }
}
