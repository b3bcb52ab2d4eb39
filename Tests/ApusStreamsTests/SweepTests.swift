import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// Sends of which nothing, or something, is left.
@Suite struct SweepTests {
    private static let route = RouteNumber(1)

    /// A planned send in the first shard.
    private struct Setup {
        let fixture: StreamsFixture
        let send: SendKey

        var keys: StreamKeys { self.fixture.keys }
        var state: String { self.keys.send(self.send) }
        var plan: String { self.keys.plan(SweepTests.route) }
        var work: String { self.keys.work(SweepTests.route, .bulk) }

        func redis(_ name: String, _ arguments: RedisArgument...) async throws -> RESPNode {
            try await self.fixture.client.send(RedisCommand(name, arguments), on: self.keys.tag).root
        }

        func sweep(silence: Int64 = 0) async throws -> LostSends.CloseResult {
            // Both this machine's clock and Redis' decide; they are the same.
            try await self.fixture.streams.lostSends.close(
                self.send,
                tag: self.keys.tag,
                silenceMilliseconds: silence,
                routes: try await self.fixture.streams.routes.all(),
                now: SystemClock().now(),
            )
        }

        /// Puts a message where a part of the send may be, looks, and takes it away again.
        func sweep(with message: [UInt8], in stream: String) async throws -> LostSends.CloseResult {
            let id = try await self.redis("XADD", .text(stream), "*", "m", .bytes(message)).string ?? ""
            let sweeping = try await self.sweep()
            _ = try await self.redis("XDEL", .text(stream), .text(id))
            return sweeping
        }

        func unit(of send: SendKey) throws -> [UInt8] {
            let reference = DeviceReference(partition: 0, ordinal: 1, generation: 1)
            return try WorkUnit(send: send, route: SweepTests.route, recipients: .references([reference])).encode()
        }

        func batch(of send: SendKey, _ count: UInt64) -> OutcomeBatch {
            var batch = OutcomeBatch(send: send.id, app: send.app, route: SweepTests.route, provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: count)]
            return batch
        }

        /// Applies the next batch of outcomes as feedback does, to its end.
        func applyNext() async throws -> Outcomes.ApplyResult {
            let feedback = StreamConsumer(group: StreamGroup.feedback, name: "f")
            let entry = try await self.fixture.read(self.keys.outcomes, feedback)
            let application = try await self.fixture.streams.outcomes.apply(
                try OutcomeBatch.decode(entry.message),
                entry: entry,
                by: feedback,
                tag: self.keys.tag,
                keepMilliseconds: 60_000,
            )
            try await self.fixture.streams.entries.acknowledge([entry], by: feedback, tag: self.keys.tag)
            return application
        }
    }

    private func with(_ body: (Setup) async throws -> Void) async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            #expect(try await streams.routes.number(of: #require(Route("shop/apns/production"))) == Self.route)
            let send = try #require((0..<100).map { "s\($0)" }.first { streams.home(app: "shop", $0) == fixture.keys })
            let command = fixture.command(id: send)
            let entry = StreamEntry(stream: fixture.keys.mailbox(.bulk), id: "1-1", message: try command.encode())
            _ = try await streams.mailboxes.accept(
                command,
                identity: SendIdentity(of: command, source: entry.source),
                routes: [Self.route],
                from: entry,
                by: fixture.consumer("one"),
                due: nil,
            )
            try await body(Setup(fixture: fixture, send: SendKey(app: "shop", id: send)))
        }
    }

    @Test func `A send is ended when nothing is left of it, and only then; its ledger adds up`() async throws {
        try await self.with { setup in
            let (keys, send) = (setup.keys, setup.send)
            // Its plan waits, whether somebody holds it or not.
            #expect(try await setup.sweep() == .left)
            _ = try await setup.fixture.read(setup.plan, setup.fixture.consumer("dead planner"))
            #expect(try await setup.sweep() == .left)
            _ = try await setup.redis("DEL", .text(setup.plan))
            _ = try await setup.redis("HSET", .text(setup.state), "planned", "10")

            let later = SystemClock().now().advanced(byMilliseconds: 60_000).value
            #expect(try await setup.sweep(with: setup.unit(of: send), in: setup.work) == .left)
            #expect(try await setup.sweep(with: setup.batch(of: send, 1).encode(), in: keys.outcomes) == .left)
            _ = try await setup.redis("ZADD", .text(keys.due), .integer(later), .text("\(send)/1/2/3"))
            #expect(try await setup.sweep() == .left)
            _ = try await setup.redis("DEL", .text(keys.due))
            _ = try await setup.redis("RPUSH", .text(keys.held(send)), "work:1:bulk", "m", "")
            #expect(try await setup.sweep() == .left)
            _ = try await setup.redis("DEL", .text(keys.held(send)))
            // Something happened to it lately.
            #expect(try await setup.sweep(silence: 3_600_000) == .fresh)

            // Keys of another send are not its own, though its name begins the same, or another app gave it the same.
            let strangers = [SendKey(app: "shop", id: send.id + "0"), SendKey(app: "news", id: send.id)]
            _ = try await setup.redis("XADD", .text(keys.outcomes), "*", "m", .bytes(setup.batch(of: send, 4).encode()))
            #expect(try await setup.applyNext() == .ok)
            for stream in [keys.outcomes, setup.work] {
                let isUnit = stream == setup.work
                for stranger in strangers {
                    let message = try isUnit ? setup.unit(of: stranger) : setup.batch(of: stranger, 1).encode()
                    _ = try await setup.redis("XADD", .text(stream), "*", "m", .bytes(message))
                }
            }
            for stranger in strangers {
                _ = try await setup.redis("ZADD", .text(keys.due), .integer(later), .text("\(stranger)/1/2/3"))
                _ = try await setup.redis("XADD", .text(setup.plan), "*", "m", .text(stranger.description))
            }
            #expect(try await setup.sweep() == .closed)
            // The batch that closes it is on its way.
            #expect(try await setup.sweep() == .left)

            for _ in strangers { #expect(try await setup.applyNext() == .gone) }
            guard case .final(let ledger) = try await setup.applyNext() else {
                Issue.record("it is not complete")
                return
            }
            #expect(ledger.planned == 10 && ledger.total(.accepted) == 4 && ledger.total(.open) == 0)
            #expect(ledger.counts.filter { $0.outcome == .failed }.map(\.count) == [6])
            #expect(ledger.counts.contains { $0.outcome == .failed && $0.reason == .unknown })
            #expect(try await setup.fixture.streams.mailboxes.command(of: send, tag: keys.tag) == nil)
            #expect(try await setup.redis("SCARD", .text(keys.openSends)).integer == 0)
            #expect(try await setup.redis("PTTL", .text(setup.state)).integer ?? 0 > 0)
            #expect(try await setup.sweep() == .gone)

            // A late outcome counts no more: the ledger still adds up.
            _ = try await setup.redis("XADD", .text(keys.outcomes), "*", "m", .bytes(setup.batch(of: send, 6).encode()))
            #expect(try await setup.applyNext() == .gone)
            #expect(try await setup.fixture.streams.outcomes.ledger(app: "shop", send: send.id)?.total(.accepted) == 4)
        }
    }

    @Test func `A plan that was lost ends the send with the recipients that it had found`() async throws {
        try await self.with { setup in
            _ = try await setup.redis("DEL", .text(setup.plan))
            #expect(try await setup.sweep() == .closed)
            guard case .final(let ledger) = try await setup.applyNext() else {
                Issue.record("it is not complete")
                return
            }
            #expect(ledger.planned == 0 && ledger.counts == [] && !ledger.isPlanning && ledger.state == .done)
        }
    }

    @Test func `Where too much waits to search, no send is considered lost`() async throws {
        try await self.with { setup in
            _ = try await setup.redis("DEL", .text(setup.plan))
            for start in stride(from: 0, through: StreamLimits.sweepDueMax, by: 1_000) {
                let end = min(start + 1_000, StreamLimits.sweepDueMax + 1)
                let pairs = (start..<end).flatMap { [RedisArgument.integer($0), RedisArgument.text("other/\($0)")] }
                let command = RedisCommand("ZADD", [.text(setup.keys.due)] + pairs)
                _ = try await setup.fixture.client.send(command, on: setup.keys.tag)
            }
            #expect(try await setup.sweep() == .much)
            _ = try await setup.redis("ZREM", .text(setup.keys.due), "other/0")
            #expect(try await setup.sweep() == .closed)
        }
    }

    @Test func `The rest of a send is found however deep it lies, and too many outcomes are not read`() async throws {
        try await self.with { setup in
            _ = try await setup.redis("DEL", .text(setup.plan))
            func add(_ count: Int, _ message: [UInt8], _ stream: String) async throws {
                for _ in 0..<count { _ = try await setup.redis("XADD", .text(stream), "*", "m", .bytes(message)) }
            }
            let other = try setup.unit(of: "shop/other")
            try await add(250, other, setup.work)
            #expect(try await setup.sweep(with: setup.unit(of: setup.send), in: setup.work) == .left)
            // A plan that waits for its time is asked for by name, however much else waits.
            let others = try setup.batch(of: "shop/other", 1).encode()
            try await add(StreamLimits.sweepOutcomesMax + 1, others, setup.keys.outcomes)
            #expect(try await setup.sweep() == .much)
            let plan = RedisArgument.text("\(setup.send)/plan/\(Self.route)")
            _ = try await setup.redis("ZADD", .text(setup.keys.due), "9000000000000", plan)
            #expect(try await setup.sweep() == .left)
            _ = try await setup.redis("ZREM", .text(setup.keys.due), plan)
            _ = try await setup.redis(
                "XTRIM",
                .text(setup.keys.outcomes),
                "MAXLEN",
                .integer(StreamLimits.sweepOutcomesMax)
            )
            try await add(StreamLimits.sweepEntriesMax - StreamLimits.sweepOutcomesMax - 249, other, setup.work)
            #expect(try await setup.sweep() == .much)
            _ = try await setup.redis("XTRIM", .text(setup.work), "MAXLEN", "250")
            #expect(try await setup.sweep() == .closed)
        }
    }

    @Test func `Open sends are listed page by page, and those that are gone are removed`() async throws {
        try await self.with { setup in
            let ghosts = (0..<500).map { RedisArgument.text("shop/ghost-\($0)") }
            let add = RedisCommand("SADD", [.text(setup.keys.openSends)] + ghosts)
            _ = try await setup.fixture.client.send(add, on: setup.keys.tag)
            var (cursor, found): (String, Set<SendKey>) = ("0", [])
            repeat {
                let page = try await setup.fixture.streams.lostSends.openSends(tag: setup.keys.tag, cursor: cursor)
                cursor = page.cursor
                found.formUnion(page.sends)
            } while cursor != "0"
            #expect(found.count == 501)
            let ghost = Setup(fixture: setup.fixture, send: "shop/ghost-7")
            #expect(try await ghost.sweep() == .gone)
            #expect(try await setup.redis("SCARD", .text(setup.keys.openSends)).integer == 500)
            #expect(
                try await setup.fixture.streams.lostSends.beginSweep(tag: setup.keys.tag, withinMilliseconds: 600_000)
            )
            #expect(
                try await !setup.fixture.streams.lostSends.beginSweep(tag: setup.keys.tag, withinMilliseconds: 600_000)
            )
        }
    }
}
