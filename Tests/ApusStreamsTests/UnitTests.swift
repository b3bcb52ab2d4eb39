import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

@Suite struct UnitTests {
    private static func unit(_ send: String = "s", count: Int = 3) -> WorkUnit {
        WorkUnit(
            send: SendKey(app: "shop", id: send),
            route: RouteNumber(7),
            recipients: .references(
                (0..<UInt32(count)).map { DeviceReference(partition: 0, ordinal: $0, generation: 1) }
            ),
        )
    }

    private static func batch(_ send: String, _ counts: [(Outcome, UInt64)]) -> OutcomeBatch {
        var batch = OutcomeBatch(send: send, app: "shop", route: RouteNumber(7), provider: .apns)
        batch.counts = counts.map { OutcomeCount(provider: .apns, outcome: $0.0, reason: .none, count: $0.1) }
        return batch
    }

    /// A send that is being planned, with its plan entry in the hands of `me`.
    private static func planned(
        _ fixture: StreamsFixture,
        _ send: String,
        _ me: StreamConsumer,
    ) async throws -> (keys: StreamKeys, plan: StreamEntry) {
        let command = fixture.command(id: send)
        let keys = fixture.streams.home(app: "shop", send)
        let entry = StreamEntry(stream: keys.mailbox(.bulk), id: "1-1", message: try command.encode())
        let identity = SendIdentity(of: command, source: entry.source)
        _ = try await fixture.streams.mailboxes.accept(
            command,
            identity: identity,
            routes: [RouteNumber(7)],
            from: entry,
            by: me,
            due: nil,
        )
        let local = StreamsFixture(server: fixture.server, client: fixture.client, streams: fixture.streams)
        let reader = StreamReader(client: local.client, tag: keys.tag, consumer: me)
        try await reader.ensure([keys.plan(RouteNumber(7)), keys.work(RouteNumber(7), .bulk), keys.outcomes])
        let connection = local.client.blockingConnection(for: keys.tag)
        let entries = try await reader.read(
            [keys.plan(RouteNumber(7))],
            count: 1,
            blockMilliseconds: 100,
            on: connection
        )
        await connection.close()
        return (keys, try #require(entries.first))
    }

    @Test func `A step appends and advances together, and a step of a former owner does nothing`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let me = fixture.consumer("one")
            let (keys, plan) = try await Self.planned(fixture, "s", me)
            var step = Plans.Step(from: "", to: "list:3", outcomes: Self.batch("s", []))
            step.units = [Self.unit()]
            #expect(try await streams.plans.advance(step, send: "shop/s", entry: plan, by: me, tag: keys.tag) == .ok)
            #expect(
                try await streams.plans.advance(step, send: "shop/s", entry: plan, by: me, tag: keys.tag)
                    == .moved(cursor: "list:3")
            )
            let formerOwner = fixture.consumer("two")
            #expect(
                try await streams.plans.advance(step, send: "shop/s", entry: plan, by: formerOwner, tag: keys.tag)
                    == .lost
            )
            let ended = Self.batch("s", [(.skipped, 2)])
            var last = Plans.Step(from: "list:3", to: "list:3", outcomes: ended)
            last.isLast = true
            last.plannedBesides = 2
            #expect(try await streams.plans.advance(last, send: "shop/s", entry: plan, by: me, tag: keys.tag) == .ok)
            let ledger = try await streams.outcomes.ledger(app: "shop", send: "s")
            #expect(ledger?.planned == 5 && ledger?.isPlanning == false)
            #expect(
                try await fixture.client.send(.init("XLEN", .text(keys.plan(RouteNumber(7)))), on: keys.tag).root
                    .integer == 0
            )
        }
    }

    @Test func `Planning stops at the limit of waiting units`() async throws {
        try await StreamsFixture.with { fixture in
            let me = fixture.consumer("one")
            let (keys, plan) = try await Self.planned(fixture, "s", me)
            var cursor = ""
            for index in 0..<(StreamLimits.unitsWaitingMax / StreamLimits.unitsPerStepMax) {
                var step = Plans.Step(from: cursor, to: "list:\(index)", outcomes: Self.batch("s", []))
                step.units = (0..<StreamLimits.unitsPerStepMax).map { _ in Self.unit(count: 1)
                }
                #expect(
                    try await fixture.streams.plans.advance(step, send: "shop/s", entry: plan, by: me, tag: keys.tag)
                        == .ok
                )
                cursor = step.next
            }
            var step = Plans.Step(from: cursor, to: "list:99", outcomes: Self.batch("s", []))
            step.units = [Self.unit()]
            let result = try await fixture.streams.plans.advance(
                step,
                send: "shop/s",
                entry: plan,
                by: me,
                tag: keys.tag
            )
            #expect(result == .full)
        }
    }

    @Test func `A send with a rate of its own plans little ahead, and leaves room for others`() async throws {
        try await StreamsFixture.with { fixture in
            let (me, streams) = (fixture.consumer("one"), fixture.streams)
            let (keys, plan) = try await Self.planned(fixture, "s", me)
            _ = try await streams.control.apply(.rate(10), to: "shop/s", at: keys)
            func take(_ from: String, _ to: String, units: Int) async throws -> Plans.StepResult {
                var step = Plans.Step(from: from, to: to, outcomes: Self.batch("s", []))
                step.units = (0..<units).map { _ in Self.unit(count: 1) }
                return try await streams.plans.advance(step, send: "shop/s", entry: plan, by: me, tag: keys.tag)
            }
            #expect(try await take("", "list:1", units: StreamLimits.pacedUnitsPerStepMax) == .ok)
            #expect(try await take("list:1", "list:2", units: 2) == .ok)
            // The units of a paused route are known for as long as a send waits behind them.
            let paced = RedisArgument.text("\(keys.tag)paced:7:bulk")
            #expect(try await fixture.client.send(.init("PEXPIRE", paced, 600_000), on: keys.tag).root.integer == 1)
            #expect(try await take("list:2", "list:3", units: 1) == .paced)
            let left = try await fixture.client.send(.init("PTTL", paced), on: keys.tag).root.integer
            #expect((86_400_000...2_592_000_000).contains(left ?? 0))
            // When the first step's units are gone there is room for another step, and for one only.
            let work = keys.work(RouteNumber(7), .bulk)
            _ = try await fixture.client.send(.init("XTRIM", .text(work), "MAXLEN", 2), on: keys.tag)
            #expect(try await take("list:2", "list:3", units: 1) == .ok)
            #expect(try await take("list:3", "list:4", units: 1) == .paced)
            _ = try await streams.control.apply(.rate(0), to: "shop/s", at: keys)
            #expect(try await take("list:3", "list:4", units: 1) == .ok)
        }
    }

    @Test func `However many sends have rates of their own, a send that has none goes on`() async throws {
        try await StreamsFixture.with { fixture in
            let (me, streams) = (fixture.consumer("one"), fixture.streams)
            let count = StreamLimits.pacedUnitsPerStepMax
            let names = (0..<1_000).map { "s\($0)" }.filter { streams.home(app: "shop", $0) == fixture.keys }
            let (fast, slow) = (names[0], Array(names[1...40]))
            func take(
                _ send: String,
                _ plan: StreamEntry,
                _ number: Int,
                units: Int
            ) async throws -> Plans.StepResult {
                let from = number == 0 ? "" : "list:\(number)"
                var step = Plans.Step(from: from, to: "list:\(number + 1)", outcomes: Self.batch(send, []))
                step.units = (0..<units).map { _ in Self.unit(count: 1) }
                let key = SendKey(app: "shop", id: send)
                return try await streams.plans.advance(step, send: key, entry: plan, by: me, tag: fixture.keys.tag)
            }
            let (keys, unpaced) = try await Self.planned(fixture, fast, me)
            var paced: [(send: String, plan: StreamEntry, steps: Int)] = []
            for send in slow {
                paced.append((send, try await Self.planned(fixture, send, me).1, 0))
                _ = try await streams.control.apply(.rate(10), to: SendKey(app: "shop", id: send), at: keys)
            }
            for _ in 0..<3 {
                for index in paced.indices {
                    switch try await take(paced[index].send, paced[index].plan, paced[index].steps, units: count) {
                    case .ok: paced[index].steps += 1
                    case .paced: break
                    case let other: Issue.record("\(other)")
                    }
                }
            }
            let work = keys.work(RouteNumber(7), .bulk)
            // Sends with nothing waiting come before the others.
            #expect(paced.filter { $0.steps == 1 }.count == 32 && paced.allSatisfy { $0.steps <= 1 })
            #expect(try await fixture.length(work) == StreamLimits.pacedUnitsWaitingMax)
            for number in 0..<4 {
                #expect(try await take(fast, unpaced, number, units: StreamLimits.unitsPerStepMax) == .ok)
            }
            #expect(try await take(fast, unpaced, 4, units: 1) == .full)
            // A step that is refused looks for few of the units, each of which is large.
            _ = try await fixture.client.send(.init("CONFIG", "RESETSTAT"), on: keys.tag)
            #expect(try await take(paced[35].send, paced[35].plan, 0, units: count) == .paced)
            #expect(try await take(fast, unpaced, 4, units: 1) == .full)
            let statistics = try await fixture.client.send(.init("INFO", "commandstats"), on: keys.tag).root.string
            let calls = statistics?.firstMatch(of: /cmdstat_xrange:calls=([0-9]+)/).flatMap { Int($0.1) } ?? 0
            #expect((1...20).contains(calls))
            // Units that are lost count no more: some are missed at each step.
            _ = try await fixture.client.send(.init("DEL", .text(work)), on: keys.tag)
            for step in 0..<2 {
                var result = Plans.StepResult.paced
                for _ in 0..<500 where result == .paced {
                    result = try await take(paced[35].send, paced[35].plan, step, units: count)
                }
                #expect(result == .ok)
            }
        }
    }

    /// The ways in which units that were planned without a rate come to belong to a slow send.
    enum Slowing: CaseIterable, Sendable {
        case beforeTheyBegin, afterTheyBegan, beforeTheyAreHandedBack, beforeTheyAreHeldAndReleased
    }

    @Test(arguments: Slowing.allCases)
    func `A send that is slowed while it runs takes no room of others`(slowing: Slowing) async throws {
        try await StreamsFixture.with { fixture in
            let (me, streams) = (fixture.consumer("one"), fixture.streams)
            let names = (0..<64).map { "s\($0)" }.filter { streams.home(app: "shop", $0) == fixture.keys }
            let (slow, quick) = (SendKey(app: "shop", id: names[0]), SendKey(app: "shop", id: names[1]))
            let (keys, slowPlan) = try await Self.planned(fixture, slow.id, me)
            let (_, quickPlan) = try await Self.planned(fixture, quick.id, me)
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
            let steps = StreamLimits.unitsWaitingMax / StreamLimits.unitsPerStepMax
            func take(_ send: SendKey, _ plan: StreamEntry, _ number: Int) async throws -> Plans.StepResult {
                let from = number == 0 ? "" : "list:\(number)"
                var step = Plans.Step(from: from, to: "list:\(number + 1)", outcomes: Self.batch(send.id, []))
                step.units = (0..<StreamLimits.unitsPerStepMax).map { _ in Self.unit(send.id, count: 1) }
                return try await streams.plans.advance(step, send: send, entry: plan, by: me, tag: keys.tag)
            }
            func units() async throws -> [StreamEntry] {
                try await reader.read(keys.work(RouteNumber(7), .bulk), count: StreamLimits.unitsWaitingMax)
            }
            func tell(_ next: Work.NextStep, _ units: [StreamEntry]) async throws {
                for unit in units {
                    _ = try await streams.work.record(
                        unit,
                        of: slow,
                        by: me,
                        tag: keys.tag,
                        journal: nil,
                        next: next
                    )
                }
            }
            for number in 0..<steps { #expect(try await take(slow, slowPlan, number) == .ok) }
            #expect(try await take(quick, quickPlan, 0) == .full)
            let first = try await units()
            #expect(first.count == StreamLimits.unitsWaitingMax)
            if slowing != .beforeTheyBegin { try await tell(.begin, first) }
            _ = try await streams.control.apply(.rate(10), to: slow, at: keys)
            switch slowing {
            case .beforeTheyBegin: try await tell(.begin, first)
            case .afterTheyBegan: try await tell(.continue, first)
            case .beforeTheyAreHandedBack:
                try await tell(.leave, first)
                try await tell(.begin, try await units())
            case .beforeTheyAreHeldAndReleased:
                _ = try await streams.control.apply(.pause, to: slow, at: keys)
                try await tell(.leave, first)
                #expect(try await units().isEmpty)
                _ = try await streams.control.apply(.resume, to: slow, at: keys)
                try await tell(.begin, try await units())
            }
            for number in 0..<steps { #expect(try await take(quick, quickPlan, number) == .ok) }
            #expect(try await take(quick, quickPlan, steps) == .full)
            // Units that have ended are forgotten.
            let paced = RedisCommand("SCARD", .text("\(keys.tag)paced:7:bulk"))
            #expect(try await fixture.client.send(paced, on: keys.tag).root.integer == Int64(first.count))
            guard slowing == .beforeTheyBegin else { return }
            try await tell(.finish, first)
            #expect(try await fixture.client.send(paced, on: keys.tag).root.integer == 0)
        }
    }

    @Test func `However many units sends left that were slowed while they ran, a send without a rate is planned`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (me, streams) = (fixture.consumer("one"), fixture.streams)
            let (keys, plan) = try await Self.planned(fixture, "s", me)
            let (work, paced) = (RedisArgument.text(keys.work(RouteNumber(7), .bulk)), "\(keys.tag)paced:7:bulk")
            let slowed = try Self.unit("slow", count: 1).encode()
            for number in 1...StreamLimits.unitsMax {
                let id = RedisArgument.text("\(number)-1")
                _ = try await fixture.client.send(.init("XADD", work, id, "m", .bytes(slowed)), on: keys.tag)
                _ = try await fixture.client.send(.init("SADD", .text(paced), id), on: keys.tag)
            }
            func take(_ number: Int, units: Int) async throws -> Plans.StepResult {
                let from = number == 0 ? "" : "list:\(number)"
                var step = Plans.Step(from: from, to: "list:\(number + 1)", outcomes: Self.batch("s", []))
                step.units = (0..<units).map { _ in Self.unit(count: 1) }
                return try await streams.plans.advance(step, send: "shop/s", entry: plan, by: me, tag: keys.tag)
            }
            let steps = StreamLimits.unitsWaitingMax / StreamLimits.unitsPerStepMax
            for number in 0..<steps {
                #expect(try await take(number, units: StreamLimits.unitsPerStepMax) == .ok)
            }
            #expect(try await take(steps, units: 1) == .full)
            _ = try await streams.control.apply(.rate(10), to: "shop/s", at: keys)
            #expect(try await take(steps, units: 1) == .paced)
        }
    }

    @Test func `A unit takes no room of slow sends after it has left its stream, whatever became of it`() async throws {
        try await StreamsFixture.with { fixture in
            let (me, streams) = (fixture.consumer("one"), fixture.streams)
            let (keys, plan) = try await Self.planned(fixture, "s", me)
            _ = try await streams.control.apply(.rate(10), to: "shop/s", at: keys)
            var step = Plans.Step(from: "", to: "list:1", outcomes: Self.batch("s", []))
            step.units = (0..<2).map { _ in Self.unit(count: 1) }
            #expect(try await streams.plans.advance(step, send: "shop/s", entry: plan, by: me, tag: keys.tag) == .ok)
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
            let units = try await reader.read(keys.work(RouteNumber(7), .bulk), count: 2)
            func paced() async throws -> Int64? {
                let count = RedisCommand("SCARD", .text("\(keys.tag)paced:7:bulk"))
                return try await fixture.client.send(count, on: keys.tag).root.integer
            }
            #expect(try await paced() == 2)
            // One is dropped without a dead letter.
            let isDropped = try await streams.deadLetters.write(
                try #require(units.first),
                by: me,
                tag: keys.tag,
                letter: nil,
                receipt: nil
            )
            #expect(isDropped)
            #expect(try await paced() == 1)
            // The other ends after its send has lost its rate.
            _ = try await streams.control.apply(.rate(0), to: "shop/s", at: keys)
            _ = try await streams.work.record(
                try #require(units.last),
                of: "shop/s",
                by: me,
                tag: keys.tag,
                journal: nil,
                next: .finish
            )
            #expect(try await paced() == 0)
        }
    }

    @Test func `Progress is written once however often it is reported, and never by a former owner`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let me = fixture.consumer("one")
            let (keys, plan) = try await Self.planned(fixture, "s", me)
            var step = Plans.Step(from: "", to: "list:3", outcomes: Self.batch("s", []))
            step.units = [Self.unit()]
            step.isLast = true
            _ = try await streams.plans.advance(step, send: "shop/s", entry: plan, by: me, tag: keys.tag)
            let work = keys.work(RouteNumber(7), .bulk)
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
            let connection = fixture.client.blockingConnection(for: keys.tag)
            let entry = try #require(
                try await reader.read([work], count: 1, blockMilliseconds: 100, on: connection).first
            )
            await connection.close()
            #expect(try WorkUnit.decode(entry.message) == Self.unit())

            func report(
                _ sequence: UInt32,
                _ bits: UInt8,
                by consumer: StreamConsumer,
                finish: Bool = false
            ) async throws
                -> Work.Verdict.State
            {
                try await streams.work.record(
                    entry,
                    of: "shop/s",
                    by: consumer,
                    tag: keys.tag,
                    journal: UnitJournal(sequence: sequence, bitmap: [bits]),
                    outcomes: Self.batch("s", [(.accepted, 1)]),
                    next: finish ? .finish : .continue,
                ).state
            }
            let outcomes = { () async throws -> Int64? in
                try await fixture.client.send(.init("XLEN", .text(keys.outcomes)), on: keys.tag).root.integer
            }
            #expect(try await outcomes() == 1)
            #expect(try await report(1, 0b001, by: me) == .running)
            #expect(try await report(1, 0b001, by: me) == .running)
            #expect(try await outcomes() == 2)
            #expect(try await report(2, 0b111, by: fixture.consumer("two")) == .lost)
            #expect(try await outcomes() == 2)

            // Another takes it over after a lease, not before, and finds the bits.
            let other = fixture.consumer("two")
            func claim(after leaseMilliseconds: Int64 = 500) async throws -> Entries.Claim {
                try await streams.entries.claim(
                    [.init(work)],
                    by: other,
                    tag: keys.tag,
                    leaseMilliseconds: leaseMilliseconds
                )[
                    0
                ]
            }
            #expect(try await claim(after: 60_000).entries.isEmpty)
            var taken: [StreamEntry] = []
            while taken.isEmpty {
                try await Task.sleep(for: .milliseconds(60))
                taken = try await claim().entries
            }
            #expect(taken.map(\.id) == [entry.id])
            #expect(taken.first?.journal == UnitJournal(sequence: 1, bitmap: [0b001]))
            #expect(try await report(2, 0b011, by: me) == .lost)
            #expect(try await report(2, 0b111, by: other, finish: true) == .running)
            #expect(try await outcomes() == 3)
            #expect(try await fixture.client.send(.init("XLEN", .text(work)), on: keys.tag).root.integer == 0)
            #expect(try await fixture.client.send(.init("HLEN", .text(keys.journal)), on: keys.tag).root.integer == 0)
        }
    }

    @Test func `A ledger moves only with its acknowledgement, and completes once`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let me = fixture.consumer("one")
            let (keys, plan) = try await Self.planned(fixture, "s", me)
            var step = Plans.Step(from: "", to: "list:3", outcomes: Self.batch("s", []))
            step.units = [Self.unit()]
            step.isLast = true
            _ = try await streams.plans.advance(step, send: "shop/s", entry: plan, by: me, tag: keys.tag)
            for count in [2, 1] as [UInt64] {
                let bytes = try Self.batch("s", [(.accepted, count)]).encode()
                _ = try await fixture.client.send(
                    .init("XADD", .text(keys.outcomes), "*", "m", .bytes(bytes)),
                    on: keys.tag
                )
            }
            let feedback = StreamConsumer(group: StreamGroup.feedback, name: "f")
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: feedback)
            try await reader.ensure([keys.outcomes])
            let connection = fixture.client.blockingConnection(for: keys.tag)
            let entries = try await reader.read([keys.outcomes], count: 10, blockMilliseconds: 100, on: connection)
            await connection.close()
            #expect(entries.count == 3)
            func apply(_ index: Int) async throws -> Outcomes.ApplyResult {
                let batch = try OutcomeBatch.decode(entries[index].message)
                return try await streams.outcomes.apply(
                    batch,
                    entry: entries[index],
                    by: feedback,
                    tag: keys.tag,
                    keepMilliseconds: 60_000,
                )
            }
            #expect(try await apply(0) == .ok)
            #expect(try await apply(1) == .ok)
            #expect(try await apply(1) == .lost)
            let final = try await apply(2)
            guard case .final(let ledger) = final else { throw Unexpected(final) }
            #expect(ledger.planned == 3 && ledger.total(.accepted) == 3 && ledger.total(.open) == 0)
            // The receipt was not written, say: the same answer again, and the ledger has not moved twice.
            #expect(try await apply(2) == final)
            #expect(
                try await streams.entries.acknowledge([entries[2]], by: feedback, tag: keys.tag)
                    == [entries[2].id]
            )
            #expect(try await apply(2) == .lost)
            #expect(try await streams.mailboxes.command(of: "shop/s", tag: keys.tag) == nil)
        }
    }

    @Test func `Owners get the time of a lease when nobody has taken over for a while`() async throws {
        try await StreamsFixture.with { fixture in
            let keys = fixture.keys
            let stream = keys.plan(RouteNumber(7))
            let lease: Int64 = 1_500
            func claim() async throws -> [StreamEntry] {
                try await fixture.streams.entries.claim(
                    [.init(stream)],
                    by: fixture.consumer("successor"),
                    tag: keys.tag,
                    leaseMilliseconds: lease,
                )[0].entries
            }
            #expect(try await claim().isEmpty)
            let entry = try await fixture.deliver([1], to: stream, consumer: fixture.consumer("dead"))
            try await Task.sleep(for: .milliseconds(lease + 50))
            // It has been idle for more than a lease, but nobody looked for so long: amnesty.
            #expect(try await claim().isEmpty)
            try await Task.sleep(for: .milliseconds(100))
            #expect(try await claim().isEmpty)
            var claimed: [StreamEntry] = []
            while claimed.isEmpty {
                try await Task.sleep(for: .milliseconds(100))
                claimed = try await claim()
            }
            #expect(claimed.map(\.id) == [entry.id] && claimed.first?.deliveries == 2)
        }
    }
}
