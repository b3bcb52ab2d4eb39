import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Logging
import Synchronization
import Testing

@testable import ApusStreams

@Suite struct ReplayTests {
    private static let route = RouteNumber(7)
    /// No test takes so long.
    private static let lease: Int64 = 600_000

    private static func unit(_ count: Int = 3) -> WorkUnit {
        WorkUnit(
            send: "shop/s",
            route: Self.route,
            recipients: .references(
                (0..<UInt32(count)).map { DeviceReference(partition: 0, ordinal: $0, generation: 1) }
            ),
        )
    }

    private static func batch(_ counts: [(Outcome, UInt64)] = []) -> OutcomeBatch {
        var batch = OutcomeBatch(send: "s", app: "shop", route: Self.route, provider: .apns)
        batch.counts = counts.map { OutcomeCount(provider: .apns, outcome: $0.0, reason: .none, count: $0.1) }
        return batch
    }

    /// A dispatcher's hand: a send with its plan entry in hand, over functions whose calls are remembered.
    private struct Bench {
        let fixture: StreamsFixture
        let keys: StreamKeys
        let me: StreamConsumer
        let log: ReplayLog
        let streams: SendStreams
        let observer = RecordingObserver()

        var work: String { self.keys.work(ReplayTests.route, .bulk) }

        init(_ fixture: StreamsFixture, name: String = "me", bytesMax: Int = StreamLimits.replayBytesMax) {
            self.fixture = fixture
            self.keys = fixture.streams.home(app: "shop", "s")
            self.me = fixture.consumer(name)
            self.log = ReplayLog(
                tag: self.keys.tag,
                client: fixture.client,
                consumer: self.me,
                leaseMilliseconds: ReplayTests.lease,
                budget: ReplayBudget(bytesMax: bytesMax, shards: 1),
                observer: self.observer,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            self.streams = fixture.streams.logged(in: [self.log])
        }

        func accept() async throws -> StreamEntry {
            let command = self.fixture.command(id: "s")
            let entry = StreamEntry(stream: self.keys.mailbox(.bulk), id: "1-1", message: try command.encode())
            _ = try await self.streams.mailboxes.accept(
                command,
                identity: SendIdentity(of: command, source: entry.source),
                routes: [ReplayTests.route],
                from: entry,
                by: self.me,
                due: nil,
            )
            let reader = StreamReader(client: self.fixture.client, tag: self.keys.tag, consumer: self.me)
            try await reader.ensure([self.keys.plan(ReplayTests.route), self.work, self.keys.outcomes])
            return try await self.read(self.keys.plan(ReplayTests.route))
        }

        func read(_ stream: String) async throws -> StreamEntry {
            let reader = StreamReader(client: self.fixture.client, tag: self.keys.tag, consumer: self.me)
            guard let entry = try await reader.read(stream, count: 1).first else { throw NothingToRead(stream: stream) }
            return entry
        }

        func plan(_ plan: StreamEntry, from: String, to: String, units: Int, isLast: Bool = false) async throws {
            var step = Plans.Step(from: from, to: to, outcomes: ReplayTests.batch())
            step.units = (0..<units).map { _ in ReplayTests.unit() }
            step.isLast = isLast
            let result = try await self.streams.plans.advance(
                step,
                send: "shop/s",
                entry: plan,
                by: self.me,
                tag: self.keys.tag
            )
            #expect(result == .ok)
        }

        @discardableResult
        func report(
            _ entry: StreamEntry,
            _ sequence: UInt32,
            _ bits: UInt8,
            finish: Bool = false,
        ) async throws -> Work.Verdict.State {
            try await self.streams.work.record(
                entry,
                of: "shop/s",
                by: self.me,
                tag: self.keys.tag,
                journal: UnitJournal(sequence: sequence, bitmap: [bits]),
                outcomes: ReplayTests.batch([(.accepted, 1)]),
                next: finish ? .finish : .continue,
            ).state
        }

        func length(_ stream: String) async throws -> Int64 {
            try await self.fixture.client.send(.init("XLEN", .text(stream)), on: self.keys.tag).root.integer ?? -1
        }

        /// Recipients that the outcomes in the stream tell of.
        func accepted() async throws -> UInt64 {
            let range = RedisCommand("XRANGE", .text(self.keys.outcomes), "-", "+")
            return try await self.fixture.client.send(range, on: self.keys.tag).root.children.reduce(0) {
                $0 + (try OutcomeBatch.decode($1[1][1].bytes ?? []).counts.reduce(0) { $0 + $1.count })
            }
        }

        /// Another owns it since that time.
        func give(_ entry: StreamEntry, to other: StreamConsumer, silent milliseconds: Int = 0) async throws {
            let command = RedisCommand(
                "XCLAIM",
                .text(entry.stream),
                .text(other.group),
                .text(other.name),
                0,
                .text(entry.id),
                "IDLE",
                .integer(milliseconds),
                "JUSTID"
            )
            _ = try await self.fixture.client.send(command, on: self.keys.tag)
        }

        func owner(of entry: StreamEntry) async throws -> String? {
            let command = RedisCommand(
                "XPENDING",
                .text(entry.stream),
                .text(self.me.group),
                .text(entry.id),
                .text(entry.id),
                1
            )
            return try await self.fixture.client.send(command, on: self.keys.tag).root.element(0)?[1].string
        }

        /// Another process' report: nobody remembers it here.
        func report(
            _ entry: StreamEntry,
            _ sequence: UInt32,
            _ bits: UInt8,
            by other: StreamConsumer,
            finish: Bool = false,
        ) async throws -> Work.Verdict.State {
            try await self.fixture.streams.work.record(
                entry,
                of: "shop/s",
                by: other,
                tag: self.keys.tag,
                journal: UnitJournal(sequence: sequence, bitmap: [bits]),
                outcomes: ReplayTests.batch([(.accepted, 1)]),
                next: finish ? .finish : .continue,
            ).state
        }

        /// A unit of eight recipients in hand.
        func unitInHand() async throws -> StreamEntry {
            let plan = try await self.accept()
            try await self.plan(plan, from: "", to: "list:3", units: 1, isLast: true)
            return try await self.read(self.work)
        }

        /// The server as it was at the last `SAVE`.
        func rollBack() async throws { try await self.fixture.server.restart() }
        func save() async throws { _ = try await self.fixture.server.command("SAVE") }
        /// Any call finds out that the server is another.
        func touch() async throws { _ = try await self.streams.work.moveDue(tag: self.keys.tag) }
    }

    @Test func `Units that were finished after the last snapshot stay finished`() async throws {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let plan = try await bench.accept()
            try await bench.plan(plan, from: "", to: "list:3", units: 3, isLast: true)
            let first = try await bench.read(bench.work)
            try await bench.report(first, 1, 0b001)
            try await bench.save()
            // One that the snapshot knows as delivered, one that nobody has read, as it knows.
            try await bench.report(first, 2, 0b011)
            try await bench.report(first, 3, 0b111, finish: true)
            let second = try await bench.read(bench.work)
            try await bench.report(second, 1, 0b111, finish: true)
            #expect(try await bench.length(bench.work) == 1)
            let accepted = try await bench.accepted()
            try await bench.rollBack()
            #expect(try await bench.length(bench.work) == 3)
            #expect(try await bench.accepted() < accepted)
            try await bench.touch()
            #expect(try await bench.length(bench.work) == 1)
            #expect(try await bench.accepted() == accepted)
            #expect(bench.observer.counts.replayed > 0)
            // The third is still there, for whoever reads.
            let third = try await bench.read(bench.work)
            #expect(third.id > second.id)
            #expect(try await bench.report(third, 1, 0b111, finish: true) == .running)
        }
    }

    @Test func `A direct send that was kept is kept again, though its app has opened others meanwhile`() async throws {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let ids = (0..<64).map { "o\($0)" }
            let other = try #require(ids.first { fixture.streams.home(app: "shop", $0) == bench.keys })
            func persist(_ id: String, in streams: SendStreams) async throws -> Bool {
                let command = fixture.command(id: id)
                let origin = "\(bench.keys.mailbox(.express))/1-1"
                return try await streams.mailboxes.persist(
                    command,
                    identity: SendIdentity(of: command, source: origin),
                    origin: origin,
                    recipients: 1,
                    batches: [],
                    retries: [],
                    now: UnixMilliseconds(1),
                    // One in each of two shards.
                    limits: OpenSendLimits(sends: 2, bytes: nil),
                )
            }
            try await bench.save()
            #expect(try await persist("s", in: bench.streams))
            try await bench.rollBack()
            // Another process is faster.
            #expect(try await persist(other, in: fixture.streams))
            try await bench.touch()
            let ledger = try await fixture.streams.outcomes.ledger(bench.keys.send("shop/s"), tag: bench.keys.tag)
            #expect(ledger?.planned == 1)
        }
    }

    @Test func `Direct sends that ended together after the last snapshot end again, each once`() async throws {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let mailbox = bench.keys.mailbox(.express)
            let reader = StreamReader(client: fixture.client, tag: bench.keys.tag, consumer: bench.me)
            try await reader.ensure([mailbox, bench.keys.outcomes])
            for _ in 0..<4 {
                _ = try await fixture.client.send(
                    RedisCommand("XADD", .text(mailbox), "*", "m", "x"),
                    on: bench.keys.tag
                )
            }
            let entries = try await reader.read(mailbox, count: 4)
            try await bench.save()
            let calls = try entries.map { entry in
                FinishSendCall(
                    keys: [mailbox],
                    consumer: bench.me,
                    entry: entry.name,
                    receipt: [],
                    outcomes: [try Self.batch([(.accepted, 1)]).encode()],
                )
            }
            // One is another's by now.
            try await bench.give(entries[3], to: fixture.consumer("other"))
            let mailboxes = bench.streams.mailboxes
            #expect(try await mailboxes.finish(calls, tag: bench.keys.tag) == [true, true, true, false])
            #expect(try await mailboxes.finish(calls, tag: bench.keys.tag) == [false, false, false, false])
            #expect(try await bench.length(mailbox) == 1)
            #expect(try await bench.accepted() == 3)
            try await bench.rollBack()
            #expect(try await bench.length(mailbox) == 4)
            #expect(try await bench.accepted() == 0)
            try await bench.touch()
            #expect(try await bench.length(mailbox) == 1)
            #expect(try await bench.accepted() == 3)
        }
    }

    /// Otherwise the publisher, who asks again and is told that the send is known, would wait for its receipt for ever.
    @Test func `A direct send ends on a server that has forgotten its publication, whether it had ended before or not`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let mailbox = bench.keys.mailbox(.express)
            let reader = StreamReader(client: fixture.client, tag: bench.keys.tag, consumer: bench.me)
            try await reader.ensure([mailbox, bench.keys.outcomes])
            try await bench.touch()
            try await bench.save()
            // Two of that shard.
            let commands = (0..<64).map { fixture.command(id: "s\($0)") }.filter {
                fixture.streams.home(app: $0.app, $0.id).tag == bench.keys.tag
            }.prefix(2)
            for command in commands { _ = try await fixture.streams.mailboxes.publish(command, lane: .express) }
            let entries = try await reader.read(mailbox, count: 2)
            #expect(entries.count == 2 && entries.allSatisfy(\.isAdmitted))
            func finish(_ index: Int) async throws -> Bool {
                let (entry, command) = (entries[index], commands[index])
                var batch = OutcomeBatch(send: command.id, app: command.app, route: Self.route, provider: .apns)
                batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
                let identity = SendIdentity(of: command, source: entry.source, digest: entry.admittedDigest)
                return try await bench.streams.mailboxes.finish(
                    entry,
                    of: command,
                    identity: identity,
                    by: bench.me,
                    tag: bench.keys.tag,
                    home: bench.keys.tag,
                    recipients: 1,
                    batches: [batch],
                )
            }
            for (entry, command) in zip(entries, commands) {
                let identity = SendIdentity(of: command, source: entry.source, digest: entry.admittedDigest)
                let admission = try await bench.streams.mailboxes.admit(
                    entry,
                    app: command.app,
                    identity: identity,
                    home: bench.keys.tag,
                )
                #expect(admission == .new)
            }
            #expect(try await finish(0))
            bench.log.attach { [entries[1].name] }
            try await bench.rollBack()
            #expect(try await bench.length(bench.keys.receipts) == 0)
            // A clock that is behind gives their ids again.
            for entry in entries {
                let add = RedisCommand("XADD", .text(mailbox), .text(entry.id), "m", "another's")
                _ = try await fixture.client.send(add, on: bench.keys.tag)
            }
            try await bench.touch()
            for command in commands {
                let again = try await fixture.streams.mailboxes.publish(command, lane: .express)
                #expect(again == .duplicate(send: command.id))
            }
            #expect(try await bench.length(bench.keys.receipts) == 1)
            let others = try await reader.read(mailbox, count: 2)
            #expect(others.map(\.id) == entries.map(\.id))
            #expect(try await finish(1))
            #expect(try await bench.length(bench.keys.receipts) == 2)
            #expect(try await bench.accepted() == 2)
            #expect(try await bench.length(mailbox) == 2)
            // On a server that has kept the ends, nothing is written again.
            try await bench.save()
            try await bench.rollBack()
            try await bench.touch()
            #expect(try await bench.length(bench.keys.receipts) == 2)
            #expect(try await bench.accepted() == 2)
        }
    }

    /// A consumer of direct sends that admits each, and ends it if that attempt may: otherwise the server of its recipients is away.
    private static func directSends(
        _ bench: Bench,
        _ command: SendCommand,
        attempts: AttemptCount,
        mayEnd: @escaping @Sendable (_ attempt: Int) async -> Bool
    ) -> ShardConsumer {
        ShardConsumer(
            tag: bench.keys.tag,
            streams: bench.streams,
            consumer: bench.me,
            feeds: [ShardConsumer.Feed(bench.keys.mailbox(.express), inHandMax: 1, countPerRead: 1)],
            leaseMilliseconds: Self.lease,
            replayLog: bench.log,
            observer: bench.observer,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        ) { entry, _ in
            let identity = SendIdentity(of: command, source: entry.source, digest: entry.admittedDigest)
            let (mailboxes, tag) = (bench.streams.mailboxes, bench.keys.tag)
            let admission = try await mailboxes.admit(entry, app: command.app, identity: identity, home: tag)
            #expect(admission == .new)
            guard await mayEnd(attempts.add()) else { throw RedisError(.notConnected, "away") }
            var batch = OutcomeBatch(send: command.id, app: command.app, route: Self.route, provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
            _ = try await mailboxes.finish(
                entry,
                of: command,
                identity: identity,
                by: bench.me,
                tag: tag,
                home: tag,
                recipients: 1,
                batches: [batch],
            )
        }
    }

    private final class AttemptCount: Sendable {
        private let attempts = Atomic(0)

        var value: Int { self.attempts.load(ordering: .relaxed) }
        @discardableResult
        func add() -> Int { self.attempts.add(1, ordering: .relaxed).newValue }

        func wait() async { while self.value == 0 { try? await Task.sleep(for: .milliseconds(5)) } }
    }

    /// A bench whose server will forget everything that is published from now on.
    private static func forgetfulBench(_ fixture: StreamsFixture) async throws -> Bench {
        let bench = Bench(fixture)
        let reader = StreamReader(client: fixture.client, tag: bench.keys.tag, consumer: bench.me)
        try await reader.ensure([bench.keys.mailbox(.express), bench.keys.outcomes])
        try await bench.touch()
        try await bench.save()
        return bench
    }

    /// Its publisher asks again, too, and is told that it is known.
    @Test func `A direct send that has failed is written again on a server that has forgotten its publication`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let bench = try await Self.forgetfulBench(fixture)
            let (mailbox, command) = (bench.keys.mailbox(.express), fixture.command(id: "s"))
            let (attempts, rollBacks) = (AttemptCount(), AttemptCount())
            let consumer = Self.directSends(bench, command, attempts: attempts) { attempt in
                await rollBacks.wait()
                return attempt > 1
            }
            let run = Task { await consumer.run() }
            _ = try await fixture.streams.mailboxes.publish(command, lane: .express)
            try await eventually("it was tried") { attempts.value > 0 }
            try await bench.rollBack()
            rollBacks.add()
            try await eventually("it has ended", timeout: .seconds(60)) {
                try await bench.length(bench.keys.receipts) == 1
            }
            #expect(try await bench.accepted() == 1)
            #expect(try await bench.length(mailbox) == 0)
            let again = try await fixture.streams.mailboxes.publish(command, lane: .express)
            #expect(again == .duplicate(send: command.id))
            consumer.stop()
            await run.value
        }
    }

    /// Otherwise its publisher would be told that it is known, and nobody would send it.
    @Test(arguments: [false, true])
    func `A direct send that was given up is known to a server only with its command`(isGivenUpLater: Bool) async throws
    {
        try await StreamsFixture.with { fixture in
            let bench = try await Self.forgetfulBench(fixture)
            let (mailbox, command) = (bench.keys.mailbox(.express), fixture.command(id: "s"))
            let (attempts, rollBacks) = (AttemptCount(), AttemptCount())
            let consumer = Self.directSends(bench, command, attempts: attempts) { _ in
                if isGivenUpLater { await rollBacks.wait() }
                return false
            }
            let run = Task { await consumer.run() }
            _ = try await fixture.streams.mailboxes.publish(command, lane: .express)
            let isLate = isGivenUpLater
            try await eventually("it was tried") { attempts.value > (isLate ? 0 : StreamLimits.outagesPerDeliveryMax) }
            if !isLate { try await eventually("it is given up") { consumer.inHand.isEmpty } }
            try await bench.rollBack()
            rollBacks.add()
            if isLate { try await eventually("it is tried again", timeout: .seconds(60)) { attempts.value > 1 } }
            // Now at last the consumer gives up what it has in hand.
            consumer.stop()
            await run.value
            try await bench.touch()
            #expect(try await bench.length(mailbox) == (isLate ? 1 : 0))
            let again = try await fixture.streams.mailboxes.publish(command, lane: .express)
            if isLate {
                #expect(again == .duplicate(send: command.id))
            } else if case .new = again {
                #expect(try await bench.length(mailbox) == 1)
            } else {
                Issue.record("it is taken for known: \(again)")
            }
        }
    }

    @Test func `Of two entries that were admitted by one key the later one holds it after a failover that forgot both`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let bench = try await Self.forgetfulBench(fixture)
            let (mailbox, command) = (bench.keys.mailbox(.express), fixture.command(id: "s"))
            var entries: [StreamEntry] = []
            for _ in 0..<2 {
                // So a dead letter is replayed: its key is forgotten first.
                if let first = entries.first {
                    try await fixture.streams.mailboxes.forgetKey(of: command, origin: first.origin)
                }
                _ = try await fixture.streams.mailboxes.publish(command, lane: .express)
                let entry = try await bench.read(mailbox)
                let admission = try await bench.streams.mailboxes.admit(
                    entry,
                    app: command.app,
                    identity: SendIdentity(of: command, source: entry.source, digest: entry.admittedDigest),
                    home: bench.keys.tag,
                )
                #expect(entry.isAdmitted && admission == .new)
                entries.append(entry)
            }
            try await bench.rollBack()
            try await bench.touch()
            #expect(try await fixture.streams.mailboxes.origin(app: "shop", send: "s") == entries[1].origin)
            #expect(entries.map { bench.log.isLost($0.name) } == [false, true])
        }
    }

    /// Its receipt in another stream is forgotten with its end, and nobody repeats it.
    @Test(arguments: [false, true])
    func `A command that was refused comes back where its receipt was written elsewhere`(isElsewhere: Bool) async throws
    {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let mailbox = bench.keys.mailbox(.express)
            let reader = StreamReader(client: fixture.client, tag: bench.keys.tag, consumer: bench.me)
            try await reader.ensure([mailbox])
            try await bench.touch()
            for _ in 0..<2 {
                let add = RedisCommand("XADD", .text(mailbox), "*", "m", "a command")
                _ = try await fixture.client.send(add, on: bench.keys.tag)
            }
            let entries = try await reader.read(mailbox, count: 2)
            try await bench.save()
            let (streams, tag) = (bench.streams, bench.keys.tag)
            try await streams.entries.acknowledge([entries[0]], by: bench.me, tag: tag, isRepeated: !isElsewhere)
            let isWritten = try await streams.deadLetters.write(
                entries[1],
                by: bench.me,
                tag: tag,
                letter: nil,
                receipt: isElsewhere ? nil : SendReceipt(id: "r", send: "s", app: "shop", kind: .refused),
                isRepeated: !isElsewhere,
            )
            #expect(isWritten)
            #expect(try await bench.length(mailbox) == 0)
            try await bench.rollBack()
            try await bench.touch()
            #expect(try await bench.length(mailbox) == (isElsewhere ? 2 : 0))
            #expect(try await bench.length(bench.keys.receipts) == (isElsewhere ? 0 : 1))
        }
    }

    @Test func `A send that was accepted, planned and sent after the last snapshot is restored`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            try await bench.touch()
            try await bench.save()
            let plan = try await bench.accept()
            try await bench.plan(plan, from: "", to: "list:3", units: 2)
            let first = try await bench.read(bench.work)
            try await bench.report(first, 1, 0b111, finish: true)
            let second = try await bench.read(bench.work)
            try await bench.report(second, 1, 0b001)
            try await bench.rollBack()
            #expect(try await bench.length(bench.work) == 0)
            let reader = StreamReader(client: fixture.client, tag: bench.keys.tag, consumer: bench.me)
            try await reader.ensure([bench.keys.plan(Self.route), bench.work, bench.keys.outcomes])
            bench.log.attach { [plan.name, second.name] }
            // Goes on where it was, without knowing that anything has happened.
            #expect(try await bench.report(second, 2, 0b011) == .running)
            try await bench.plan(plan, from: "list:3", to: "list:3", units: 0, isLast: true)
            #expect(try await bench.report(second, 3, 0b111, finish: true) == .running)
            #expect(try await bench.length(bench.work) == 0)
            #expect(try await bench.length(bench.keys.plan(Self.route)) == 0)
            let ledger = try await fixture.streams.outcomes.ledger(app: "shop", send: "s")
            #expect(ledger?.planned == 6 && ledger?.isPlanning == false)
            #expect(try await bench.accepted() == 4)
        }
    }

    @Test func `What entries in hand rest on is read after the replay on a server that has forgotten it`() async throws
    {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            try await bench.touch()
            try await bench.save()
            let plan = try await bench.accept()
            try await bench.plan(plan, from: "", to: "list:3", units: 1)
            try await bench.rollBack()
            // By the plain client the send is gone: an entry in hand would be ended for it.
            #expect(try await fixture.streams.mailboxes.command(of: "shop/s", tag: bench.keys.tag) == nil)
            #expect(try await bench.streams.mailboxes.command(of: "shop/s", tag: bench.keys.tag) != nil)
            let state = try await bench.streams.plans.state(send: "shop/s", route: Self.route, tag: bench.keys.tag)
            #expect(state?.routes == [Self.route])
        }
    }

    @Test func `A retry that came due and was sent after the last snapshot is not sent again`() async throws {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let unit = try await bench.unitInHand()
            let retries = (0..<2).map {
                UnitRetry(due: UnixMilliseconds(1), id: "s/retry/\($0)", unit: Self.unit(1))
            }
            let filed = try await bench.streams.work.record(
                unit,
                of: "shop/s",
                by: bench.me,
                tag: bench.keys.tag,
                journal: UnitJournal(sequence: 1, bitmap: [0b111]),
                outcomes: Self.batch([(.accepted, 1)]),
                retries: retries,
                now: UnixMilliseconds(1),
                next: .finish,
            )
            #expect(filed.state == .running)
            try await bench.save()
            #expect(try await bench.streams.work.moveDue(tag: bench.keys.tag).moved == 2)
            let first = try await bench.read(bench.work)
            try await bench.report(first, 1, 0b1, finish: true)
            let second = try await bench.read(bench.work)
            try await bench.rollBack()
            // The server has both filed, and does not know their entries.
            #expect(try await bench.length(bench.work) == 0)
            bench.log.attach { [second.name] }
            #expect(try await bench.report(second, 1, 0b1, finish: true) == .running)
            #expect(try await bench.streams.work.moveDue(tag: bench.keys.tag).moved == 0)
            #expect(try await bench.length(bench.work) == 0)
            #expect(try await bench.accepted() == 3)
        }
    }

    @Test func `Entries in hand are read by no other consumer after a failover that forgot their reader`() async throws
    {
        try await StreamsFixture.with { fixture in
            let (bench, other) = (Bench(fixture), Bench(fixture, name: "other"))
            let plan = try await bench.accept()
            try await bench.plan(plan, from: "", to: "list:3", units: 6, isLast: true)
            try await other.touch()
            try await bench.save()
            var units: [StreamEntry] = []
            for index in 0..<5 { units.append(try await (index == 1 ? other : bench).read(bench.work)) }
            // One ended meanwhile, and the server does not know.
            try await bench.report(units[0], 1, 0b111, finish: true)
            try await bench.rollBack()
            let (mine, theirs) = (units[2...4].map(\.name), [units[1].name])
            bench.log.attach { mine }
            other.log.attach { theirs }
            try await bench.touch()
            try await other.touch()
            for unit in units[1...] { #expect(try await bench.owner(of: unit) == (unit == units[1] ? "other" : "me")) }
            let reader = StreamReader(client: fixture.client, tag: bench.keys.tag, consumer: other.me)
            let read = try await reader.read(bench.work, count: 10)
            // The sixth, which nobody had read.
            #expect(read.count == 1 && read.allSatisfy { $0.id > units[4].id })
            for unit in units[1...] { #expect(try await bench.owner(of: unit) == (unit == units[1] ? "other" : "me")) }
        }
    }

    /// A server whose clock is behind gives ids anew that a server before it has given.
    @Test(arguments: [false, true])
    func `Entries that have the ids of forgotten ones are left alone`(isFinished: Bool) async throws {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            try await bench.touch()
            let reader = StreamReader(client: fixture.client, tag: bench.keys.tag, consumer: bench.me)
            let streams = [bench.keys.mailbox(.bulk), bench.keys.plan(Self.route), bench.work]
            try await reader.ensure(streams)
            try await bench.save()
            let plan = try await bench.accept()
            try await bench.plan(plan, from: "", to: "a", units: 1, isLast: isFinished)
            let unit = try await bench.read(bench.work)
            try await bench.report(unit, 1, 0b111, finish: isFinished)
            bench.log.attach { isFinished ? [] : [plan.name, unit.name] }
            try await bench.rollBack()
            for (stream, id) in zip(streams, ["1-1", plan.id, unit.id]) {
                let add = RedisCommand("XADD", .text(stream), .text(id), "m", "another's")
                _ = try await fixture.client.send(add, on: bench.keys.tag)
            }
            try await bench.touch()
            // Also when the entries come to this consumer.
            let others = try await reader.read(bench.work, count: 1) + reader.read(streams[1], count: 1)
            #expect(others.map(\.id) == [unit.id, plan.id])
            if !isFinished {
                #expect(try await bench.report(unit, 2, 0b111, finish: true) == .lost)
                let step = Plans.Step(from: "a", to: "b", outcomes: Self.batch())
                let result = try await bench.streams.plans.advance(
                    step,
                    send: "shop/s",
                    entry: plan,
                    by: bench.me,
                    tag: bench.keys.tag
                )
                #expect(result == .lost)
            }
            for stream in streams {
                let range = RedisCommand("XRANGE", .text(stream), "-", "+", "COUNT", "1")
                let first = try await fixture.client.send(range, on: bench.keys.tag).root
                #expect(first[0][1][1].string == "another's", "\(stream)")
            }
        }
    }

    @Test func `A replay changes nothing on a server that lost nothing`() async throws {
        try await RedisServer.with(.init(isAppendOnly: true)) { server in
            try await StreamsFixture.with(server) { fixture in
                let bench = Bench(fixture)
                let plan = try await bench.accept()
                try await bench.plan(plan, from: "", to: "list:3", units: 2, isLast: true)
                let first = try await bench.read(bench.work)
                try await bench.report(first, 1, 0b001)
                try await bench.report(first, 2, 0b111, finish: true)
                let second = try await bench.read(bench.work)
                try await bench.report(second, 1, 0b001)
                let accepted = try await bench.accepted()
                try await bench.rollBack()
                try await bench.touch()
                #expect(bench.observer.counts.replayed > 0)
                #expect(try await bench.accepted() == accepted)
                #expect(try await bench.length(bench.work) == 1)
                #expect(try await bench.report(second, 2, 0b111, finish: true) == .running)
                let ledger = try await fixture.streams.outcomes.ledger(app: "shop", send: "s")
                #expect(ledger?.planned == 6 && ledger?.isPlanning == false)
            }
        }
    }

    @Test func `A report whose predecessor is missing is refused, so that no bit is without its outcome`() async throws
    {
        try await StreamsFixture.with { fixture in
            // No room to remember anything.
            let bench = Bench(fixture, bytesMax: 0)
            let plan = try await bench.accept()
            try await bench.plan(plan, from: "", to: "list:3", units: 1, isLast: true)
            let entry = try await bench.read(bench.work)
            try await bench.report(entry, 1, 0b001)
            try await bench.save()
            try await bench.report(entry, 2, 0b011)
            try await bench.rollBack()
            #expect(try await bench.report(entry, 3, 0b111, finish: true) == .lost)
            #expect(try await bench.accepted() == 1)
            #expect(bench.observer.counts.dropped > 0 && bench.observer.counts.replayed == 0)
            // The consumer that takes it over goes on from the journal.
            #expect(try await bench.report(entry, 2, 0b111, finish: true) == .running)
            #expect(try await bench.accepted() == 2)
        }
    }

    @Test func `A living consumer keeps what it took over, although the last owner replays its writes`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let unit = try await bench.unitInHand()
            for number in 1...3 { try await bench.report(unit, UInt32(number), UInt8(1 << number) - 1) }
            let successor = fixture.consumer("successor")
            try await bench.give(unit, to: successor)
            #expect(try await bench.report(unit, 4, 0b0000_1111, by: successor) == .running)
            #expect(try await bench.report(unit, 5, 0b0001_1111, by: successor) == .running)
            try await bench.save()
            try await bench.rollBack()
            bench.log.attach { [unit.name] }
            #expect(try await bench.report(unit, 4, 0b1000_0111) == .lost)
            #expect(bench.observer.counts.replayed > 0)
            #expect(try await bench.owner(of: unit) == "successor")
            #expect(try await bench.report(unit, 6, 0b0011_1111, by: successor) == .running)
            #expect(try await bench.accepted() == 6)
        }
    }

    @Test func `An owner that returns to a unit continued by a dead successor overwrites nothing`() async throws {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let unit = try await bench.unitInHand()
            try await bench.report(unit, 1, 0b1)
            let successor = fixture.consumer("successor")
            try await bench.give(unit, to: successor)
            for number in 2...4 {
                #expect(try await bench.report(unit, UInt32(number), UInt8(1 << number) - 1, by: successor) == .running)
            }
            try await bench.give(unit, to: successor, silent: Int(Self.lease) * 2)
            try await bench.save()
            try await bench.rollBack()
            bench.log.attach { [unit.name] }
            // Its lease is over, so it can be had; but two reports are known of which its last owner has no idea.
            #expect(try await bench.report(unit, 2, 0b1000_0001) == .lost)
            #expect(try await bench.owner(of: unit) == "me")
            #expect(try await bench.report(unit, 4, 0b1000_0001) == .lost)
            #expect(try await bench.report(unit, 4, 0b1000_0001, finish: true) == .lost)
            #expect(try await bench.accepted() == 4)
            #expect(try await bench.length(bench.work) == 1)
        }
    }

    @Test func `Two owners that reported the same numbers after a failover are distinguished`() async throws {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let unit = try await bench.unitInHand()
            try await bench.report(unit, 1, 0b1)
            try await bench.save()
            try await bench.report(unit, 2, 0b1000_0001)
            try await bench.rollBack()
            // Before it is told again, another takes over from the first report, goes on and dies.
            let successor = fixture.consumer("successor")
            try await bench.give(unit, to: successor)
            #expect(try await bench.report(unit, 2, 0b0000_0011, by: successor) == .running)
            try await bench.give(unit, to: successor, silent: Int(Self.lease) * 2)
            bench.log.attach { [unit.name] }
            // The next number in line, of a history that the server does not have.
            #expect(try await bench.report(unit, 3, 0b1100_0001) == .lost)
            #expect(try await bench.report(unit, 3, 0b1100_0001, finish: true) == .lost)
            #expect(try await bench.accepted() == 2)
            // A new turn goes on with what is there.
            bench.log.ended(unit.name)
            #expect(try await bench.report(unit, 3, 0b0000_0111) == .running)
            #expect(try await bench.accepted() == 3)
        }
    }

    @Test func `Calls about entries that another process brings back are repeated before anything is read`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            // The other has accepted and planned the send, this one has finished its unit; the server has forgotten all of it.
            let (bench, other) = (Bench(fixture), Bench(fixture, name: "other"))
            try await bench.touch()
            try await other.touch()
            try await bench.save()
            let plan = try await other.accept()
            try await other.plan(plan, from: "", to: "list:3", units: 2, isLast: true)
            let unit = try await bench.read(bench.work)
            try await bench.report(unit, 1, 0b111, finish: true)
            try await bench.rollBack()
            let reader = StreamReader(client: fixture.client, tag: bench.keys.tag, consumer: bench.me)
            try await reader.ensure([bench.keys.plan(Self.route), bench.work, bench.keys.outcomes])
            try await bench.touch()
            #expect(try await bench.length(bench.work) == 0)
            try await other.touch()
            #expect(try await bench.length(bench.work) == 2)
            let server = try await bench.log.serverForReading()
            #expect(try await bench.length(bench.work) == 1)
            let left = try await reader.read(bench.work, count: 10, server: server)
            #expect(left.count == 1 && left.allSatisfy { $0.id > unit.id })
            #expect(try await bench.accepted() == 1)
        }
    }

    @Test func `An answer to a call that a replay has not known of does not count: the call is made again`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let bench = Bench(fixture)
            let unit = try await bench.unitInHand()
            try await bench.touch()
            func calls() async throws -> Int {
                let text = try await fixture.server.command("INFO", "commandstats").root.string ?? ""
                let line = text.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_fcall:calls=") } ?? ""
                return Int(line.dropFirst("cmdstat_fcall:calls=".count).prefix { $0 != "," }) ?? 0
            }
            let before = try await calls()
            let server = try await bench.log.server()
            // The answer comes late, as from a server that was frozen while another took its place.
            fixture.server.suspend()
            async let state = bench.report(unit, 1, 0b1)
            try await Task.sleep(for: .milliseconds(300))
            // On a busy machine the client may have given up its connection, and the replay needs a server.
            let resuming = Task {
                try await Task.sleep(for: .seconds(10))
                fixture.server.resume()
            }
            await bench.log.replay(after: server)
            resuming.cancel()
            fixture.server.resume()
            #expect(try await state == .running)
            // The replay leaves the connection, over which the call may have been made once more.
            #expect(try await calls() - before >= 2)
            #expect(try await bench.accepted() == 1)
            #expect(try await bench.report(unit, 2, 0b11) == .running)
        }
    }

    @Test func `Reading pauses for longer than any process waits before it reconnects`() {
        #expect(StreamLimits.replayReadingPause > ReconnectPolicy().cap)
    }

    @Test func `One shard may keep more than its share, and none less`() {
        let budget = ReplayBudget(bytesMax: 1_600, shards: 8)
        #expect(budget.guaranteed == 100)
        // One takes all that is shared.
        #expect(budget.room(beside: 0) == 900)
        budget.changed(from: 0, to: 900)
        #expect(budget.room(beside: 900) == 900)
        #expect(budget.room(beside: 0) == 100)
        budget.changed(from: 0, to: 100)
        #expect(budget.room(beside: 100) == 100)
        // And gives it back.
        budget.changed(from: 900, to: 50)
        #expect(budget.room(beside: 100) == 900)
        let none = ReplayBudget(bytesMax: 0, shards: 8)
        #expect(none.room(beside: 0) == 0)
    }

    @Test func `Kept calls are limited by bytes and by age, and only the first counts as a loss`() {
        let start = ContinuousClock.now
        func call(_ seconds: Int) -> ReplayMemory.Call {
            ReplayMemory.Call(MarkWriteCall(keys: ["key"]), entry: nil, byteCount: 100, at: start + .seconds(seconds))
        }
        let size = call(0).byteCount
        var memory = ReplayMemory(bytesMax: size * 3, age: .seconds(60))
        #expect((0..<3).map { memory.keep(call($0)) } == [0, 0, 0])
        #expect(memory.keep(call(3)) == 1)
        #expect(memory.calls.map(\.at) == [1, 2, 3].map { start + .seconds($0) })
        #expect(memory.keep(call(62)) == 0)
        #expect(memory.calls.map(\.at) == [2, 3, 62].map { start + .seconds($0) })
        for second in 200..<2_000 { _ = memory.keep(call(second)) }
        #expect(memory.calls.count == 3 && memory.byteCount == size * 3)
        // Old calls are dropped without a next call, too.
        #expect(memory.expire(start + .seconds(1_997 + 59)) == 0 && memory.calls.count == 3)
        #expect(memory.expire(start + .seconds(1_999 + 61)) == 0 && memory.calls.isEmpty && memory.byteCount == 0)
        var none = ReplayMemory(bytesMax: 0)
        #expect(none.keep(call(0)) == 1)
        #expect(none.calls.isEmpty && none.byteCount == 0)
    }
}
