import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// A send in the fixture's first shard, accepted for two routes.
private struct ControlledSend {
    static let route = RouteNumber(7)
    static let other = RouteNumber(9)

    let fixture: StreamsFixture
    let id: String
    let me: StreamConsumer

    var keys: StreamKeys { self.fixture.keys }
    var tag: HashTag { self.keys.tag }
    var streams: SendStreams { self.fixture.streams }
    var work: String { self.keys.work(Self.route, .bulk) }

    static func accepted(
        _ fixture: StreamsFixture,
        due: UnixMilliseconds? = nil,
        rate: UInt32 = 0,
    ) async throws -> ControlledSend {
        let id = try #require(
            (0..<64).map { "s\($0)" }.first { fixture.streams.home(app: "shop", $0) == fixture.keys }
        )
        let send = ControlledSend(fixture: fixture, id: id, me: fixture.consumer("one"))
        var command = fixture.command(id: id)
        command.ratePerSecond = rate
        let entry = StreamEntry(stream: send.keys.mailbox(.bulk), id: "1-1", message: try command.encode())
        _ = try await fixture.streams.mailboxes.accept(
            command,
            identity: SendIdentity(of: command, source: entry.source),
            routes: [Self.route, Self.other],
            from: entry,
            by: send.me,
            due: due,
        )
        return send
    }

    var key: SendKey { SendKey(app: "shop", id: self.id) }

    func unit(_ count: UInt32 = 3) -> WorkUnit {
        let references = (0..<count).map { DeviceReference(partition: 0, ordinal: $0, generation: 1) }
        return WorkUnit(send: self.key, route: Self.route, recipients: .references(references))
    }

    func batch(_ counts: [(Outcome, UInt64)] = []) -> OutcomeBatch {
        var batch = OutcomeBatch(send: self.id, app: "shop", route: Self.route, provider: .apns)
        batch.counts = counts.map { OutcomeCount(provider: .apns, outcome: $0.0, reason: .none, count: $0.1) }
        return batch
    }

    /// The route's plan in hand, and one unit of it in the stream.
    func plannedOnce() async throws -> StreamEntry {
        let plan = try await self.fixture.read(self.keys.plan(Self.route), self.me)
        var step = Plans.Step(from: "", to: "list:3", outcomes: self.batch())
        step.units = [self.unit()]
        #expect(try await self.advancePlan(step, plan) == .ok)
        return plan
    }

    func advancePlan(_ step: Plans.Step, _ plan: StreamEntry) async throws -> Plans.StepResult {
        try await self.streams.plans.advance(step, send: self.key, entry: plan, by: self.me, tag: self.tag)
    }

    func tell(
        _ entry: StreamEntry,
        _ next: Work.NextStep,
        sequence: UInt32? = nil,
        bits: UInt8 = 0,
        retries: [UnitRetry] = [],
    ) async throws -> Work.Verdict {
        try await self.streams.work.record(
            entry,
            of: self.key,
            by: self.me,
            tag: self.tag,
            journal: sequence.map { UnitJournal(sequence: $0, bitmap: [bits]) },
            outcomes: sequence == nil ? nil : self.batch([(.accepted, 1)]),
            retries: retries,
            now: UnixMilliseconds(1_000_000_000_000),
            next: next,
        )
    }

    @discardableResult
    func control(_ command: SendControlCommand) async throws -> SendControl.Result {
        try await self.streams.control.apply(command, to: self.key, at: self.keys)
    }

    func ledger() async throws -> SendLedger {
        try #require(try await self.streams.outcomes.ledger(self.keys.send(self.key), tag: self.tag))
    }

    /// Entries: of the route's plan, of the other's, of its work, put aside, waiting for their time, and journals.
    func counts() async throws -> [Int64] {
        var counts: [Int64] = []
        for (command, key) in [
            ("XLEN", self.keys.plan(Self.route)), ("XLEN", self.keys.plan(Self.other)), ("XLEN", self.work),
            ("LLEN", self.keys.held(self.key)), ("ZCARD", self.keys.due), ("HLEN", self.keys.journal),
        ] {
            let count = try await self.fixture.client.send(RedisCommand(command, .text(key)), on: self.tag).root.integer
            counts.append((count ?? -1) / (command == "LLEN" ? 3 : 1))
        }
        return counts
    }
}

@Suite struct SendControlTests {
    @Test(arguments: [false, true])
    func `D50 D51 A rejected message is flagged; its send is refused only if the ledger has no accepted recipient`(
        hasAccepted: Bool
    ) async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            _ = try await send.plannedOnce()
            let unit = try await fixture.read(send.work, send.me)
            #expect(try await send.tell(unit, .begin).state == .running)
            func reject(
                _ sequence: UInt32,
                _ next: Work.NextStep,
                isByAll: Bool
            ) async throws -> Work.Verdict {
                try await send.streams.work.record(
                    unit,
                    of: send.key,
                    by: send.me,
                    tag: send.tag,
                    journal: UnitJournal(sequence: sequence, bitmap: [UInt8(1 << sequence) - 1]),
                    outcomes: send.batch([(.rejected, 1)]),
                    rejection: Work.MessageRejection(
                        field: "message.ttl/\(sequence)",
                        provider: .fcm,
                        isByAll: isByAll
                    ),
                    next: next,
                )
            }
            #expect(try await reject(1, .continue, isByAll: false).state == .running)
            #expect(try await send.ledger().problem?.code == "message_partly_refused")
            if hasAccepted {
                let count = RedisCommand("HSET", .text(send.keys.send(send.key)), "fcm/accepted/none", "1")
                _ = try await fixture.client.send(count, on: send.tag)
            }
            #expect(try await reject(2, .continue, isByAll: true).state == (hasAccepted ? .running : .refused))
            let ledger = try await send.ledger()
            #expect(ledger.rejectedFields == ["message.ttl/1"])
            #expect(ledger.problem?.code == (hasAccepted ? "message_partly_refused" : "message_refused"))
            #expect(ledger.problem?.field == (hasAccepted ? "message.ttl/1" : "message.ttl/2"))
            // The next consumer hears it before anything goes out, and ends it; a cancelled send is cancelled first of all.
            #expect(try await send.tell(unit, .leave).state == (hasAccepted ? .running : .refused))
            let next = try await fixture.read(send.work, send.me)
            #expect(try await send.tell(next, .begin).state == (hasAccepted ? .running : .refused))
            _ = try await send.control(.cancel)
            #expect(try await send.tell(next, .finish).state == .cancelled)
        }
    }

    @Test func `A paused send's plans and units wait aside with their journals, and come back when it is resumed`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            let plan = try await send.plannedOnce()
            let unit = try await fixture.read(send.work, send.me)
            #expect(try await send.tell(unit, .begin).state == .running)
            #expect(try await send.tell(unit, .continue, sequence: 1, bits: 0b001).state == .running)
            for _ in 0..<2 {
                guard case .ok(let ledger) = try await send.control(.pause) else { throw Unexpected("pause") }
                #expect(ledger.state == .paused)
            }

            // Requests on the wire still count; then the unit leaves, once.
            #expect(try await send.tell(unit, .continue, sequence: 2, bits: 0b011).state == .paused)
            #expect(try await send.tell(unit, .leave).state == .paused)
            #expect(try await send.tell(unit, .leave).state == .lost)
            let step = Plans.Step(from: "list:3", to: "list:6", outcomes: send.batch())
            #expect(try await send.advancePlan(step, plan) == .paused)
            #expect(try await send.advancePlan(step, plan) == .lost)
            #expect(try await send.counts() == [0, 1, 0, 2, 0, 0])
            #expect(try await fixture.pending(send.work) == 0)
            #expect(try await send.streams.control.releaseHeld(send.key, tag: send.tag) == -1)
            #expect(try await send.counts() == [0, 1, 0, 2, 0, 0])

            for _ in 0..<2 {
                guard case .ok(let ledger) = try await send.control(.resume) else { throw Unexpected("resume") }
                #expect(ledger.state == .running && ledger.planned == 3)
                #expect(try await send.counts() == [1, 1, 1, 0, 0, 1])
            }
            let again = try await fixture.read(send.work, send.me)
            #expect(try WorkUnit.decode(again.message) == send.unit())
            #expect(again.journal == nil, "who reads anew learns of the journal when it begins")
            let verdict = try await send.tell(again, .begin)
            #expect(verdict.journal == UnitJournal(sequence: 2, bitmap: [0b011]))
            #expect(try await send.tell(again, .finish, sequence: 3, bits: 0b111).state == .running)
            let planAgain = try await fixture.read(send.keys.plan(ControlledSend.route), send.me)
            #expect(try await send.advancePlan(step, planAgain) == .ok)
            #expect(try await send.counts() == [1, 1, 0, 0, 0, 0])
        }
    }

    @Test func `A unit of a paused send is put aside before anything of it goes out`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            _ = try await send.plannedOnce()
            try await send.control(.pause)
            let unit = try await fixture.read(send.work, send.me)
            #expect(try await send.tell(unit, .begin).state == .paused)
            #expect(try await send.tell(unit, .begin).state == .lost)
            #expect(try await send.counts() == [1, 1, 0, 1, 0, 0])
        }
    }

    @Test func `A unit that is left while its send runs goes back into its stream with its journal`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            _ = try await send.plannedOnce()
            let unit = try await fixture.read(send.work, send.me)
            #expect(try await send.tell(unit, .leave, sequence: 1, bits: 0b100).state == .running)
            #expect(try await send.tell(unit, .leave, sequence: 1, bits: 0b100).state == .lost)
            #expect(try await send.counts() == [1, 1, 1, 0, 0, 1])
            let again = try await fixture.read(send.work, send.me)
            #expect(again.id != unit.id && again.deliveries == 1)
            #expect(try await send.tell(again, .begin).journal == UnitJournal(sequence: 1, bitmap: [0b100]))
        }
    }

    @Test func `A unit's retry waits by Redis' clock, whatever the owner's says`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            _ = try await send.plannedOnce()
            let unit = try await fixture.read(send.work, send.me)
            let now = UnixMilliseconds(4_000_000_000_000)
            _ = try await send.streams.work.record(
                unit,
                of: send.key,
                by: send.me,
                tag: send.tag,
                journal: UnitJournal(sequence: 1, bitmap: [0b001]),
                retries: [UnitRetry(due: now.advanced(byMilliseconds: 60_000), id: "later", unit: send.unit(1))],
                now: now,
                next: .continue,
            )
            let wait = try #require(try await send.streams.work.moveDue(tag: send.tag).nextMilliseconds)
            #expect((1...60_000).contains(wait))
        }
    }

    @Test func `Cancelling moves scheduled messages back, ends the plans, and schedules no retry`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            let plan = try await send.plannedOnce()
            let unit = try await fixture.read(send.work, send.me)
            let later = UnixMilliseconds(9_000_000_000_000)
            let retry = UnitRetry(due: later, id: "\(send.key)/1", unit: send.unit(1))
            _ = try await send.tell(unit, .continue, sequence: 1, bits: 0b001, retries: [retry])
            try await send.control(.pause)
            #expect(try await send.tell(unit, .leave).state == .paused)
            #expect(try await send.counts() == [1, 1, 0, 1, 1, 0])

            for _ in 0..<2 {
                guard case .ok(let ledger) = try await send.control(.cancel) else { throw Unexpected("cancel") }
                #expect(ledger.state == .cancelled)
                #expect(try await send.counts() == [1, 1, 2, 0, 0, 1])
            }
            // A report that comes late: its retry does not wait for its time.
            let first = try await fixture.read(send.work, send.me)
            #expect(try await send.tell(first, .begin).state == .cancelled)
            let late = UnitRetry(due: later, id: "\(send.key)/2", unit: send.unit(1))
            #expect(try await send.tell(first, .finish, sequence: 2, bits: 0b111, retries: [late]).state == .cancelled)
            #expect(try await send.streams.work.moveDue(tag: send.tag).moved == 1)

            // Each plan tells feedback of its end, once, and of nobody who is not counted.
            let outcomes = try await fixture.length(send.keys.outcomes)
            var closed = send.batch([(.skipped, 5)])
            closed.recipients = (0..<5).map {
                RecipientOutcome(place: .address($0), outcome: .skipped, reason: .deviceGone, at: later)
            }
            let step = Plans.Step(from: "list:3", to: "list:6", outcomes: closed)
            #expect(try await send.advancePlan(step, plan) == .cancelled)
            #expect(try await send.advancePlan(step, plan) == .lost)
            #expect(try await send.ledger().isPlanning)
            let other = try await fixture.read(send.keys.plan(ControlledSend.other), send.me)
            #expect(try await send.advancePlan(step, other) == .cancelled)
            let ledger = try await send.ledger()
            #expect(!ledger.isPlanning && ledger.planned == 3)
            #expect(try await fixture.length(send.keys.outcomes) == outcomes + 2)
            let range = RedisCommand("XREVRANGE", .text(send.keys.outcomes), "+", "-", "COUNT", 2)
            for entry in try await fixture.client.send(range, on: send.tag).root.children {
                let batch = try OutcomeBatch.decode(entry[1][1].bytes ?? [])
                #expect(batch.counts.isEmpty && batch.recipients.isEmpty)
            }
            for command in [SendControlCommand.pause, .resume, .rate(5)] {
                #expect(try await send.control(command) == .over(.cancelled))
            }
        }
    }

    @Test func `A scheduled send is cancelled before its time, on every route`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture, due: UnixMilliseconds(9_000_000_000_000))
            #expect(try await send.counts() == [0, 0, 0, 0, 2, 0])
            try await send.control(.pause)
            #expect(try await send.counts() == [0, 0, 0, 0, 2, 0])
            try await send.control(.cancel)
            #expect(try await send.counts() == [1, 1, 0, 0, 0, 0])
        }
    }

    @Test(arguments: [RedisUser.registration, .operator])
    func `A user of Redis who may control sends cancels a scheduled one`(_ user: RedisUser) async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture, due: UnixMilliseconds(9_000_000_000_000))
            try await fixture.asUser(user.rules(named: user.defaultName)) { streams in
                guard case .ok(let ledger) = try await streams.control.apply(.cancel, to: send.key, at: send.keys)
                else { throw Unexpected("cancel") }
                #expect(ledger.state == .cancelled)
            }
            #expect(try await send.counts() == [1, 1, 0, 0, 0, 0])
        }
    }

    @Test func `A scheduled message is moved as a whole or stays as it was`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture, due: UnixMilliseconds(9_000_000_000_000))
            func move(_ streams: SendStreams) async throws {
                _ = try await streams.control.moveDue(of: send.key, tag: send.tag, cursor: "0")
            }
            // A user that may write to the plans, but not take a message out.
            let rules = RedisUser.registration.rules(named: "limited").filter { !$0.hasSuffix("due:messages") }
            try await fixture.asUser(rules) { streams in
                let error = await #expect(throws: RedisError.self) { try await move(streams) }
                #expect(error?.code == .noPermission)
            }
            #expect(try await send.counts() == [0, 0, 0, 0, 2, 0])
            // A key that is no stream.
            let plan = RedisArgument.text(send.keys.plan(ControlledSend.route))
            _ = try await fixture.client.send(RedisCommand("SET", plan, "x"), on: send.tag)
            let error = await #expect(throws: RedisError.self) { try await move(fixture.streams) }
            #expect(error?.code == .wrongType)
            _ = try await fixture.client.send(RedisCommand("DEL", plan), on: send.tag)
            try await move(fixture.streams)
            #expect(try await send.counts() == [1, 1, 0, 0, 0, 0])
        }
    }

    @Test func `Recalling moves one send's scheduled messages, page by page, and no others`() async throws {
        try await StreamsFixture.with { fixture in
            let (keys, tag) = (fixture.keys, fixture.keys.tag)
            for index in 0..<600 {
                for send in ["shop/a", "shop/ab", "news/a"] {
                    let id = "\(send)/\(index)"
                    let body = RedisCommand(
                        "HSET",
                        .text("\(keys.due):messages"),
                        .text(id),
                        .text("work:1:bulk\0\(send)")
                    )
                    _ = try await fixture.client.send(body, on: tag)
                    _ = try await fixture.client.send(RedisCommand("ZADD", .text(keys.due), 9, .text(id)), on: tag)
                }
            }
            for expected in [600, 0] {
                var page = try await fixture.streams.control.moveDue(of: "shop/a", tag: tag, cursor: "0", pageMax: 50)
                var (moved, pages) = (page.moved, 1)
                while page.cursor != "0" {
                    #expect(page.moved <= 200)
                    page = try await fixture.streams.control.moveDue(
                        of: "shop/a",
                        tag: tag,
                        cursor: page.cursor,
                        pageMax: 50
                    )
                    moved += page.moved
                    pages += 1
                }
                #expect(moved == expected && pages > 5)
                #expect(try await fixture.length(keys.work(RouteNumber(1), .bulk)) == 600)
            }
        }
    }

    @Test func `Held entries are released page by page`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            for index in 0..<5 {
                let parts: [RedisArgument] = [.text("work:7:bulk"), .text("unit \(index)"), .text("")]
                let command = RedisCommand("RPUSH", [.text(send.keys.held(send.key))] + parts)
                _ = try await fixture.client.send(command, on: send.tag)
            }
            var left: [Int] = []
            for _ in 0..<4 {
                left.append(try await send.streams.control.releaseHeld(send.key, tag: send.tag, countMax: 2))
            }
            #expect(left == [3, 1, 0, 0])
            #expect(try await send.counts() == [1, 1, 5, 0, 0, 0])
        }
    }

    @Test func `A half-done resume is finished by the next move of due messages`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            let plan = try await send.plannedOnce()
            try await send.control(.pause)
            #expect(try await send.tell(fixture.read(send.work, send.me), .begin).state == .paused)
            let step = Plans.Step(from: "list:3", to: "list:6", outcomes: send.batch())
            #expect(try await send.advancePlan(step, plan) == .paused)
            let held = RedisCommand("HGETALL", .text(send.keys.heldCounts))
            let counts = try await fixture.client.send(held, on: send.tag).root.children.map(\.string)
            #expect(counts == [send.key.description, "2"])
            _ = try await send.streams.work.moveDue(tag: send.tag)
            #expect(try await send.counts() == [0, 1, 0, 2, 0, 0])
            // The process that resumed it died before anything was moved.
            let state = RedisCommand("HSET", .text(send.keys.send(send.key)), "state", "running")
            _ = try await fixture.client.send(state, on: send.tag)
            for _ in 0..<2 {
                _ = try await send.streams.work.moveDue(tag: send.tag)
                #expect(try await send.counts() == [1, 1, 1, 0, 0, 0])
            }
            let none = try await fixture.client.send(RedisCommand("EXISTS", .text(send.keys.heldCounts)), on: send.tag)
            #expect(none.root.integer == 0)
        }
    }

    @Test func `A send's rate is the command's, then the operator's, and every verdict has it`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture, rate: 250)
            _ = try await send.plannedOnce()
            let unit = try await fixture.read(send.work, send.me)
            #expect(try await send.tell(unit, .begin).ratePerSecond == 250)
            for _ in 0..<2 { try await send.control(.rate(4_000_000_000)) }
            #expect(try await send.tell(unit, .continue).ratePerSecond == 4_000_000_000)
            try await send.control(.rate(0))
            #expect(try await send.tell(unit, .continue, sequence: 1).ratePerSecond == 0)
            #expect(try await send.ledger().ratePerSecond == 0)
        }
    }

    @Test func `A plan that is a dead letter, and one whose message has expired, do not keep the send open`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            let plan = try await fixture.read(send.keys.plan(ControlledSend.route), send.me)
            var last = Plans.Step(from: "", to: "", outcomes: send.batch())
            last.isLast = true
            last.isExpired = true
            #expect(try await send.advancePlan(last, plan) == .ok)
            #expect(try await send.advancePlan(last, plan) == .lost)
            let ledger = try await send.ledger()
            #expect(ledger.isPlanning && ledger.isExpired)
            let other = try await fixture.read(send.keys.plan(ControlledSend.other), send.me)
            var buried: [Bool] = []
            for _ in 0..<2 {
                let isMine = try await send.streams.deadLetters.write(
                    other,
                    by: send.me,
                    tag: send.tag,
                    letter: nil,
                    receipt: nil,
                    outcomes: send.batch(),
                )
                buried.append(isMine)
            }
            #expect(buried == [true, false])
            #expect(try await !send.ledger().isPlanning)
            #expect(try await fixture.length(send.keys.outcomes) == 2)
        }
    }

    @Test func `A send that does not exist or has ended cannot be controlled`() async throws {
        try await StreamsFixture.with { fixture in
            let send = try await ControlledSend.accepted(fixture)
            let stranger = try await send.streams.control.apply(
                .pause,
                to: SendKey(app: "other", id: send.id),
                at: send.keys
            )
            #expect(stranger == .unknown)
            #expect(try await send.streams.control.apply(.cancel, to: "shop/none", at: send.keys) == .unknown)
            let done = RedisCommand("HSET", .text(send.keys.send(send.key)), "state", "done")
            _ = try await fixture.client.send(done, on: send.tag)
            for command in [SendControlCommand.pause, .resume, .cancel, .rate(5)] {
                #expect(try await send.control(command) == .over(.done))
            }
        }
    }
}
