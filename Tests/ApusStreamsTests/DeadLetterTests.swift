import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

@Suite struct DeadLetterTests {
    private static func letter(_ entry: StreamEntry, _ cause: DeadLetter.Cause = .invalid) -> DeadLetter {
        let problem = Problem(code: "unknown_app", field: "app", detail: "is not configured")
        return DeadLetter(
            stream: entry.stream,
            entry: entry.id,
            cause: cause,
            problem: problem,
            payload: entry.message,
            at: UnixMilliseconds(1_000),
        )
    }

    /// Reads an entry of a stream in a shard, and buries it.
    private static func bury(
        _ fixture: StreamsFixture,
        _ stream: String,
        _ keys: StreamKeys,
        outcomes: OutcomeBatch? = nil,
    ) async throws -> StoredDeadLetter {
        let me = fixture.consumer("me")
        let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
        try await reader.ensure([stream])
        let connection = fixture.client.blockingConnection(for: keys.tag)
        let entries = try await reader.read([stream], count: 1, blockMilliseconds: 100, on: connection)
        await connection.close()
        let entry = try #require(entries.first)
        let isRefused = try await fixture.streams.deadLetters.write(
            entry,
            by: me,
            tag: keys.tag,
            letter: Self.letter(entry),
            receipt: nil,
            outcomes: outcomes,
        )
        #expect(isRefused)
        let shard = fixture.streams.keyspace.shardTags.firstIndex(of: keys.tag) ?? 0
        return try #require(try await fixture.streams.deadLetters.page(shard: shard, before: "+").letters.first)
    }

    private static func messages(
        _ fixture: StreamsFixture,
        _ stream: String,
        _ keys: StreamKeys
    ) async throws -> [[UInt8]] {
        let reply = try await fixture.client.send(RedisCommand("XRANGE", .text(stream), "-", "+"), on: keys.tag)
        return reply.root.children.map { $0[1][1].bytes ?? [] }
    }

    @Test func `A message is replayed byte for byte, once, and its letter is removed`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            // Not what its stream carries: it is brought back all the same.
            let bytes: [UInt8] = [0xff, 0x00, 0x0d, 0x0a, 0x7b]
            let stream = fixture.keys.events
            _ = try await fixture.client.send(
                RedisCommand("XADD", .text(stream), "*", "m", .bytes(bytes)),
                on: fixture.keys.tag,
            )
            let stored = try await Self.bury(fixture, stream, fixture.keys)
            #expect(try await fixture.length(stream) == 0)
            #expect(DeadLetterID("\(stored.id)") == stored.id)
            #expect(try await streams.deadLetters.find(stored.id) == stored)
            guard case .replayed(_, 0) = try await streams.deadLetters.replay(stored) else {
                throw Unexpected("not replayed")
            }
            #expect(try await Self.messages(fixture, stream, fixture.keys) == [bytes])
            #expect(try await fixture.length(fixture.keys.dead) == 0)
            #expect(try await streams.deadLetters.replay(stored) == .gone)
            #expect(try await fixture.length(stream) == 1)
        }
    }

    @Test func `A replayed command is no duplicate of itself, and conflicts again with the send that took its key`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (streams, me) = (fixture.streams, fixture.consumer("me"))
            func admission(_ command: SendCommand, _ entry: String) async throws -> Mailboxes.Admission {
                let keys = streams.home(app: "shop", command.idempotencyKey)
                let origin = StreamEntry(stream: keys.mailbox(.bulk), id: entry, message: try command.encode())
                let identity = SendIdentity(of: command, source: origin.origin)
                return try await streams.mailboxes.accept(
                    command,
                    identity: identity,
                    routes: [RouteNumber(7)],
                    from: origin,
                    by: me,
                    due: nil
                ).admission
            }
            let first = fixture.command(id: "a", key: "k")
            let keys = streams.home(app: "shop", "k")
            guard case .new = try await streams.mailboxes.publish(first, lane: .bulk) else {
                throw Unexpected("not published")
            }
            let stored = try await Self.bury(fixture, keys.mailbox(.bulk), keys)
            guard case .replayed(let entry, 0) = try await streams.deadLetters.replay(stored) else {
                throw Unexpected("kept")
            }
            #expect(entry != stored.letter.entry)
            #expect(try await admission(first, entry) == .new)

            // A second one under the same key, but with another body, was put aside; it is again.
            let other = fixture.command(id: "b", key: "k", title: "Other")
            let command = RedisCommand("XADD", .text(keys.mailbox(.bulk)), "*", "m", .bytes(try other.encode()))
            let empty = RedisCommand("XTRIM", .text(keys.mailbox(.bulk)), "MAXLEN", 0)
            _ = try await fixture.client.send(empty, on: keys.tag)
            _ = try await fixture.client.send(command, on: keys.tag)
            let clash = try await Self.bury(fixture, keys.mailbox(.bulk), keys)
            guard case .replayed(let again, 0) = try await streams.deadLetters.replay(clash) else {
                throw Unexpected("kept")
            }
            #expect(try await admission(other, again) == .conflict(send: "a"))
        }
    }

    @Test func `A unit comes back while its send runs, and its recipients are planned again`() async throws {
        try await StreamsFixture.with { fixture in
            let (streams, me) = (fixture.streams, fixture.consumer("me"))
            let command = fixture.command(id: "s")
            let keys = streams.home(app: "shop", "s")
            let origin = StreamEntry(stream: keys.mailbox(.bulk), id: "1-1", message: try command.encode())
            _ = try await streams.mailboxes.accept(
                command,
                identity: SendIdentity(of: command, source: origin.origin),
                routes: [RouteNumber(7)],
                from: origin,
                by: me,
                due: nil,
            )
            let references = (0..<3).map { DeviceReference(partition: 0, ordinal: $0, generation: 1) }
            let unit = WorkUnit(send: "shop/s", route: RouteNumber(7), recipients: .references(references))
            let work = keys.work(RouteNumber(7), .bulk)
            let append = RedisCommand("XADD", .text(work), "*", "m", .bytes(try unit.encode()))
            _ = try await fixture.client.send(append, on: keys.tag)
            _ = try await fixture.client.send(
                RedisCommand("HSET", .text(keys.send("shop/s")), "planned", 3),
                on: keys.tag
            )

            let stored = try await Self.bury(fixture, work, keys)
            guard case .replayed(_, 3) = try await streams.deadLetters.replay(stored) else {
                throw Unexpected("not replayed")
            }
            #expect(try await streams.outcomes.ledger(app: "shop", send: "s")?.planned == 6)
            #expect(try await Self.messages(fixture, work, keys) == [try unit.encode()])

            // Its plan, too: the send waits for it again.
            let plan = keys.plan(RouteNumber(7))
            let planLetter = try await Self.bury(fixture, plan, keys)
            #expect(try await streams.outcomes.ledger(app: "shop", send: "s")?.isPlanning == false)
            guard case .replayed(_, 0) = try await streams.deadLetters.replay(planLetter) else {
                throw Unexpected("not replayed")
            }
            #expect(try await streams.outcomes.ledger(app: "shop", send: "s")?.isPlanning == true)

            for (state, name) in [("cancelled", "cancelled"), ("done", "done"), ("", "forgotten")] {
                let late = try await Self.bury(fixture, work, keys)
                let change =
                    state.isEmpty
                    ? RedisCommand("DEL", .text(keys.send("shop/s")))
                    : RedisCommand("HSET", .text(keys.send("shop/s")), "state", .text(state))
                _ = try await fixture.client.send(change, on: keys.tag)
                #expect(try await streams.deadLetters.replay(late) == .ended(state: name))
                #expect(try await streams.deadLetters.find(late.id) == late, "the letter stays")
                _ = try await streams.deadLetters.remove([late.id])
                _ = try await fixture.client.send(append, on: keys.tag)
            }
        }
    }

    @Test
    func
        `A send whose plan is a dead letter ends as incomplete, and continues from its cursor when the plan is replayed`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (streams, me) = (fixture.streams, fixture.consumer("me"))
            let command = fixture.command(id: "s")
            let keys = streams.home(app: "shop", "s")
            let (plan, route) = (keys.plan(RouteNumber(7)), RouteNumber(7))
            let origin = StreamEntry(stream: keys.mailbox(.bulk), id: "1-1", message: try command.encode())
            _ = try await streams.mailboxes.accept(
                command,
                identity: SendIdentity(of: command, source: origin.origin),
                routes: [route],
                from: origin,
                by: me,
                due: nil,
            )
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
            try await reader.ensure([plan, keys.outcomes])
            func step(_ entry: StreamEntry, _ from: String, _ to: String, isLast: Bool) async throws {
                var batch = OutcomeBatch(send: "s", app: "shop", route: route, provider: .apns)
                batch.counts = [OutcomeCount(provider: .apns, outcome: .skipped, reason: .none, count: 3)]
                var step = Plans.Step(from: from, to: to, outcomes: batch)
                step.plannedBesides = 3
                step.isLast = isLast
                let result = try await streams.plans.advance(step, send: "shop/s", entry: entry, by: me, tag: keys.tag)
                #expect(result == .ok)
            }
            func applyAll() async throws -> SendLedger? {
                var last: SendLedger?
                for entry in try await reader.read(keys.outcomes, count: 10) {
                    let batch = try OutcomeBatch.decode(entry.message)
                    let result = try await streams.outcomes.apply(
                        batch,
                        entry: entry,
                        by: me,
                        tag: keys.tag,
                        keepMilliseconds: 60_000
                    )
                    guard case .final(let ledger) = result else { continue }
                    last = ledger
                    // Its receipt is not out yet: were it opened again now, this outcome would count twice.
                    for letter in try await streams.deadLetters.page(shard: Self.shard(keys, streams), before: "+")
                        .letters
                    {
                        #expect(try await streams.deadLetters.replay(letter) == .ended(state: "done"))
                    }
                    try await streams.entries.acknowledge([entry], by: me, tag: keys.tag)
                }
                return last
            }
            let first = try #require(try await reader.read(plan, count: 1).first)
            try await step(first, "", "list:3", isLast: false)
            let end = OutcomeBatch(send: "s", app: "shop", route: route, provider: .apns)
            let letter = Self.letter(first, .poison)
            #expect(
                try await streams.deadLetters.write(
                    first,
                    by: me,
                    tag: keys.tag,
                    letter: letter,
                    receipt: nil,
                    outcomes: end
                )
            )
            let cut = try #require(try await applyAll())
            #expect(cut.state == .done && cut.planned == 3 && cut.total(.skipped) == 3)
            #expect(cut.unplanned == 1 && cut.problem?.code == "incomplete")
            let status = SendStatus(send: "s", ledger: cut, now: UnixMilliseconds(0))
            #expect(status.problem?.code == "incomplete")

            let letters = try await streams.deadLetters.page(shard: Self.shard(keys, streams), before: "+").letters
            guard case .replayed = try await streams.deadLetters.replay(try #require(letters.first)) else {
                throw Unexpected("not replayed")
            }
            let open = try await streams.outcomes.ledger(app: "shop", send: "s")
            #expect(open?.state == .running && open?.isPlanning == true && open?.unplanned == 0)
            #expect(try await streams.mailboxes.command(of: "shop/s", tag: keys.tag) == command)
            let state = try await streams.plans.state(send: "shop/s", route: route, tag: keys.tag)
            #expect(state?.cursor == "list:3")
            let second = try #require(try await reader.read(plan, count: 1).first)
            try await step(second, "list:3", "list:6", isLast: true)
            let whole = try #require(try await applyAll())
            #expect(whole.planned == 6 && whole.total(.skipped) == 6 && whole.problem == nil && whole.reopened == 1)
            #expect(try await streams.mailboxes.command(of: "shop/s", tag: keys.tag) == nil)
        }
    }

    private static func shard(_ keys: StreamKeys, _ streams: SendStreams) -> Int {
        streams.keyspace.shardTags.firstIndex(of: keys.tag) ?? 0
    }

    @Test func `A truncated message is not replayed`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.mailbox(.bulk)
            func bury(_ payload: [UInt8]) async throws -> StoredDeadLetter {
                let letter = Self.letter(StreamEntry(stream: stream, id: "1-1", message: payload))
                let add = RedisCommand("XADD", .text(fixture.keys.dead), "*", "m", .bytes(try letter.encode()))
                _ = try await fixture.client.send(add, on: fixture.keys.tag)
                return try #require(try await fixture.streams.deadLetters.page(shard: 0, before: "+").letters.first)
            }
            let cut = try await bury([UInt8](repeating: 0xff, count: Limits.deadLetterPayloadBytesMax))
            #expect(cut.isTruncated)
            #expect(try await fixture.streams.deadLetters.replay(cut) == .truncated)
            #expect(try await fixture.length(fixture.keys.dead) == 1)
            let whole = try await bury([UInt8](repeating: 0xff, count: Limits.deadLetterPayloadBytesMax - 1))
            #expect(!whole.isTruncated)
            guard case .replayed = try await fixture.streams.deadLetters.replay(whole) else {
                throw Unexpected("not replayed")
            }
        }
    }

    @Test func `Letters are read in parts, newest first, and removed by name`() async throws {
        try await StreamsFixture.with { fixture in
            let total = StreamLimits.deadLettersPerReadMax * 2 + 3
            for index in 0..<total {
                var letter = Self.letter(StreamEntry(stream: fixture.keys.events, id: "\(index)-0", message: [1]))
                letter.at = UnixMilliseconds(Int64(index))
                let add = RedisCommand(
                    "XADD",
                    .text(fixture.keys.dead),
                    .text("\(index + 1)-0"),
                    "m",
                    .bytes(try letter.encode())
                )
                _ = try await fixture.client.send(add, on: fixture.keys.tag)
            }
            var pages: [[StoredDeadLetter]] = []
            var next: String? = "+"
            while let before = next {
                let page = try await fixture.streams.deadLetters.page(shard: 0, before: before)
                pages.append(page.letters)
                next = page.next
            }
            #expect(pages.map(\.count) == [50, 50, 3])
            #expect(pages.joined().map(\.letter.at.value) == (0..<Int64(total)).reversed())
            let some = pages[1].map(\.id)
            #expect(try await fixture.streams.deadLetters.remove(some + [DeadLetterID(shard: 1, entry: "1-0")]) == 50)
            #expect(try await fixture.streams.deadLetters.remove(some) == 0)
            #expect(try await fixture.length(fixture.keys.dead) == 53)
            #expect(try await fixture.streams.deadLetters.find(some[0]) == nil)
            #expect(try await fixture.streams.deadLetters.find(DeadLetterID(shard: 99, entry: "1-0")) == nil)
        }
    }

    @Test func `A letter that cannot be read is shown with its bytes, is not replayed and can be removed`() async throws
    {
        try await StreamsFixture.with { fixture in
            let letters = fixture.streams.deadLetters
            for fields: [RedisArgument] in [["m", .bytes([0xff, 0x01])], ["other", ""]] {
                let add = RedisCommand("XADD", [.text(fixture.keys.dead), "1718000000000-*"] + fields)
                _ = try await fixture.client.send(add, on: fixture.keys.tag)
            }
            let found = try await letters.page(shard: 0, before: "+").letters
            #expect(found.map(\.letter.payload) == [[], [0xff, 0x01]])
            for stored in found {
                #expect(stored.isUnreadable && stored.letter.cause == .malformed)
                #expect(stored.letter.problem.code == "unreadable")
                #expect(stored.letter.at == UnixMilliseconds(1_718_000_000_000))
                #expect(try await letters.find(stored.id) == stored)
                #expect(try await letters.replay(stored) == .unreadable)
            }
            #expect(try await letters.remove(found.map(\.id)) == 2)
        }
    }

    @Test func `The oldest letters are removed when they take too many bytes or are too old`() async throws {
        try await StreamsFixture.with { fixture in
            let (dead, letters) = (fixture.keys.dead, fixture.streams.deadLetters)
            func add(_ number: Int, bytes: Int) async throws {
                let payload = [UInt8](repeating: UInt8(number % 251), count: bytes)
                let entry = StreamEntry(stream: fixture.keys.events, id: "\(number)-0", message: payload)
                try await letters.keep(Self.letter(entry), tag: fixture.keys.tag)
            }
            func memory() async throws -> Int64 {
                let usage = RedisCommand("MEMORY", "USAGE", .text(dead), "SAMPLES", 0)
                return try await fixture.client.send(usage, on: fixture.keys.tag).root.integer ?? 0
            }
            // One of last month, which the next one removes with whatever shares its place in Redis' memory.
            let month = StreamLimits.deadLettersKeptMilliseconds
            let old = RedisCommand(
                "XADD",
                .text(dead),
                .text("\(Int(SystemClock().now().value) - month - 60_000)-0"),
                "m",
                "x"
            )
            _ = try await fixture.client.send(old, on: fixture.keys.tag)
            for number in 0..<200 { try await add(number, bytes: 1_000) }
            #expect(try await fixture.length(dead) == 200)
            for number in 200..<320 {
                try await add(number, bytes: Limits.deadLetterPayloadBytesMax)
                #expect(try await memory() <= Int64(StreamLimits.deadLettersBytesMax))
            }
            let newest = try await letters.page(shard: 0, before: "+", count: 10).letters.map(\.letter.entry)
            #expect(newest == (310..<320).reversed().map { "\($0)-0" })
            // Of 256 KiB each, some 64 fit.
            #expect(try await (40...64).contains(fixture.length(dead)))
        }
    }

    @Test(arguments: ["", "1", "1/", "1/2", "x/1-0", "-1/1-0", "1/1-0/2", "1/1-x", "1/+"])
    func `A text that is not the name of a letter is refused`(_ text: String) {
        #expect(DeadLetterID(text) == nil)
    }
}
