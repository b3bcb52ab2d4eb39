import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import NIOPosix
import Testing

@Suite struct PublishTests {
    private static let routes = [RouteNumber(3), RouteNumber(7)]

    /// Returns how many entries each route's plan has.
    private static func planned(_ keys: StreamKeys, _ fixture: StreamsFixture) async throws -> [Int64?] {
        var counts: [Int64?] = []
        for route in Self.routes {
            let length = try await fixture.client.send(.init("XLEN", .text(keys.plan(route))), on: keys.tag)
            counts.append(length.root.integer)
        }
        return counts
    }

    @Test func `The same key with the same body is one send, another body is a conflict`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let first = try await streams.mailboxes.publish(fixture.command(id: "a", key: "order-7"), lane: .bulk)
            guard case .new(let send, _) = first else { throw Unexpected(first) }
            #expect(send == "a")
            #expect(
                try await streams.mailboxes.publish(fixture.command(id: "b", key: "order-7"), lane: .bulk)
                    == .duplicate(send: "a")
            )
            let other = fixture.command(id: "c", key: "order-7", title: "Other")
            #expect(try await streams.mailboxes.publish(other, lane: .bulk) == .conflict(send: "a"))
            let home = streams.home(app: "shop", "order-7")
            #expect(
                try await fixture.client.send(.init("XLEN", .text(home.mailbox(.bulk))), on: home.tag).root.integer == 1
            )
        }
    }

    @Test func `What is published by a key is admitted by that: its first delivery asks nothing`() async throws {
        try await StreamsFixture.with { fixture in
            let mailboxes = fixture.streams.mailboxes
            let command = fixture.command(id: "a")
            let home = fixture.streams.home(app: "shop", "a")
            guard case .new = try await mailboxes.publish(command, lane: .bulk) else { throw Unexpected("new") }
            let reader = StreamReader(client: fixture.client, tag: home.tag, consumer: fixture.consumer("me"))
            try await reader.ensure([home.mailbox(.bulk)])
            let entry = try #require(try await reader.read(home.mailbox(.bulk), count: 1).first)
            #expect(entry.isAdmitted)
            // Even with another's key in Redis: it was asked when it was written.
            let identity = SendIdentity(of: command, source: entry.source)
            #expect(entry.admittedDigest == identity.digest)
            let other = SendIdentity(of: fixture.command(id: "a", title: "Other"), source: entry.source)
            #expect(try await mailboxes.admit(entry, app: "shop", identity: other, home: home.tag) == .new)
            #expect(try await mailboxes.admit(entry, app: "shop", identity: identity, home: home.tag) == .new)
            // A later delivery asks.
            #expect(try await fixture.admit(command, entry.origin) == .new)
            #expect(try await fixture.admit(command, home.mailbox(.bulk) + "/9-9") == .duplicate(send: "a"))

            _ = try await fixture.client.send(
                RedisCommand("XADD", .text(home.mailbox(.bulk)), "*", "m", .bytes(try command.encode())),
                on: home.tag
            )
            let plain = try #require(try await reader.read(home.mailbox(.bulk), count: 1).first)
            #expect(!plain.isAdmitted)
            let again = try await mailboxes.admit(plain, app: "shop", identity: identity, home: home.tag)
            #expect(again == .duplicate(send: "a"))
        }
    }

    @Test func `An id whose send is kept is not published again, whatever is known of its key`() async throws {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "a")
            let home = fixture.streams.home(app: "shop", "a")
            let digest = RedisArgument.bytes(SendIdentity(of: command, source: "").digest)
            let state = RedisArgument.text(home.send("shop/a"))
            _ = try await fixture.client.send(
                RedisCommand("HSET", state, "origin", "x/1-1", "digest", digest),
                on: home.tag
            )
            #expect(try await fixture.streams.mailboxes.publish(command, lane: .bulk) == .duplicate(send: "a"))
            let other = fixture.command(id: "a", title: "Other")
            #expect(try await fixture.streams.mailboxes.publish(other, lane: .bulk) == .conflict(send: "a"))
            #expect(
                try await fixture.client.send(.init("XLEN", .text(home.mailbox(.bulk))), on: home.tag).root.integer == 0
            )
        }
    }

    @Test
    func
        `Direct sends that are ready together end together, each with its outcomes and its receipt, in its own mailbox`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let ids = (0..<100).map { "s\($0)" }
            let here = Array(ids.filter { fixture.streams.home(app: "shop", $0) == fixture.keys }.prefix(20))
            let (keys, me) = (fixture.keys, fixture.consumer("me"))
            let (mailboxes, publisher) = (fixture.streams.mailboxes, try PublisherName("shop"))
            for (number, id) in here.enumerated() {
                let (command, encoded) = (fixture.command(id: id), try fixture.command(id: id).encode())
                let own = number % 2 == 0 ? publisher : nil
                let call = mailboxes.prepare(command, encoded: encoded, lane: .express, of: own)
                _ = try await fixture.client.send(call.command, on: call.keys.tag)
            }
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
            let streams = [keys.mailbox(.express), keys.mailbox(.express, of: publisher)]
            try await reader.ensure(streams)
            let shared = try await reader.read(streams[0], count: 64)
            let entries = zip(shared, try await reader.read(streams[1], count: 64)).flatMap { [$0, $1] }
            #expect(entries.count == here.count && here.count == 20)
            let loop = MultiThreadedEventLoopGroup.singleton.next()
            let finisher = mailboxes.finisher(tag: keys.tag, on: LoopExecutor(loop))
            let finished = try await withThrowingTaskGroup(of: Bool.self) { group in
                for entry in entries {
                    group.addTask {
                        let command = try SendCommand.decode(entry.message)
                        let route = RouteNumber(1)
                        var batch = OutcomeBatch(send: command.id, app: "shop", route: route, provider: .apns)
                        batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
                        batch.receiptLevel = .summary
                        return try await mailboxes.finish(
                            entry,
                            of: command,
                            identity: SendIdentity(of: command, source: entry.source),
                            by: me,
                            tag: keys.tag,
                            home: keys.tag,
                            recipients: 1,
                            batches: [batch],
                            finisher: finisher,
                        )
                    }
                }
                return try await group.reduce(into: [Bool]()) { $0.append($1) }
            }
            #expect(finished == Array(repeating: true, count: here.count))
            #expect(
                Set(try await fixture.messages(of: keys.outcomes).map { try OutcomeBatch.decode($0).send }) == Set(here)
            )
            #expect(
                Set(try await fixture.messages(of: keys.receipts).map { try SendReceipt.decode($0).send }) == Set(here)
            )
            #expect(try await fixture.length(keys.outcomes) == 20)
            #expect(try await fixture.length(keys.receipts) == 20)
            for stream in streams {
                #expect(try await fixture.length(stream) == 0)
                #expect(try await fixture.pending(stream) == 0)
            }
        }
    }

    @Test(arguments: [SendCommand.ReceiptLevel.summary, .recipients, .none], ["", "apus:receipts:mine"])
    func `A direct send over two routes ends in one call, unless receipts of both must be joined`(
        level: SendCommand.ReceiptLevel,
        replyTo: String,
    ) async throws {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "a")
            let keys = fixture.streams.home(app: "shop", "a")
            let me = fixture.consumer("me")
            _ = try await fixture.streams.mailboxes.publish(command, lane: .express)
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
            try await reader.ensure([keys.mailbox(.express)])
            let entry = try #require(try await reader.read(keys.mailbox(.express), count: 1).first)
            let batches = [(RouteNumber(1), Provider.apns, Int64(20)), (RouteNumber(2), .fcm, 10)].map {
                route,
                provider,
                at in
                var batch = OutcomeBatch(send: "a", app: "shop", route: route, provider: provider)
                batch.counts = [
                    OutcomeCount(provider: provider, outcome: .accepted, reason: .none, count: 2),
                    OutcomeCount(provider: .apns, outcome: .skipped, reason: .deviceGone, count: 1),
                ]
                (batch.firstAt, batch.lastAt) = (UnixMilliseconds(at), UnixMilliseconds(at + 15))
                (batch.receiptLevel, batch.replyTo) = (level, replyTo)
                return batch
            }
            let finished = try await fixture.streams.mailboxes.finish(
                entry,
                of: command,
                identity: SendIdentity(of: command, source: entry.source),
                by: me,
                tag: keys.tag,
                home: keys.tag,
                recipients: 6,
                batches: batches,
            )
            #expect(finished)
            let written = try await fixture.messages(of: keys.outcomes).map { try OutcomeBatch.decode($0) }
            let receipts = try await fixture.messages(of: keys.receipts).map { try SendReceipt.decode($0) }
            let endsAtOnce = level == .none || level == .summary && replyTo.isEmpty
            #expect(written.map(\.route) == [RouteNumber(1), RouteNumber(2)])
            #expect(written.map(\.isFinal) == [endsAtOnce, endsAtOnce])
            #expect(try await fixture.pending(keys.mailbox(.express)) == 0)
            let isKept = try await fixture.streams.mailboxes.isKept("a", app: "shop", home: "a", origin: entry.origin)
            #expect(isKept == !endsAtOnce)
            guard level == .summary, replyTo.isEmpty else { return #expect(receipts == []) }
            #expect(written.map(\.receiptIsWritten) == [true, true] && written.map(\.planned) == [6, 0])
            let receipt = try #require(receipts.first)
            #expect(receipts.count == 1 && receipt.planned == 6)
            #expect((receipt.firstAt, receipt.lastAt) == (UnixMilliseconds(10), UnixMilliseconds(35)))
            #expect(
                receipt.counts == [
                    OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 2),
                    OutcomeCount(provider: .apns, outcome: .skipped, reason: .deviceGone, count: 2),
                    OutcomeCount(provider: .fcm, outcome: .accepted, reason: .none, count: 2),
                ]
            )
        }
    }

    @Test func `A stream of a publisher's own loses receipts that are too old, and is gone some days after the last`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let replies = "apus:receipts:mine"
            let slot = HashTag(ofKey: replies)
            // Redis drops entries by nodes of a hundred.
            for index in 1...150 {
                let add = RedisCommand("XADD", .text(replies), .text("\(index)-1"), "m", "old")
                _ = try await fixture.client.send(add, on: slot)
            }
            let receipt = SendReceipt(id: "r", send: "s", app: "shop", kind: .final)
            try await fixture.streams.outcomes.write(receipt, replyTo: replies, tag: fixture.keys.tag)
            let (messages, last) = (try await fixture.messages(of: replies), try receipt.encode())
            #expect(messages.count == 51 && messages.last == last)
            let left = try await fixture.client.send(RedisCommand("PTTL", .text(replies)), on: slot).root.integer
            #expect((1...259_200_000).contains(left ?? 0))
        }
    }

    @Test(arguments: [SendCommand.ReceiptLevel.summary, .recipients, .none], ["", "apus:receipts:mine"])
    func `The call that ends a direct send writes its receipt, unless that follows others or goes elsewhere`(
        level: SendCommand.ReceiptLevel,
        replyTo: String,
    ) async throws {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "a")
            let keys = fixture.streams.home(app: "shop", "a")
            let me = fixture.consumer("me")
            _ = try await fixture.streams.mailboxes.publish(command, lane: .express)
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
            try await reader.ensure([keys.mailbox(.express)])
            let entry = try #require(try await reader.read(keys.mailbox(.express), count: 1).first)
            var batch = OutcomeBatch(send: "a", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 2)]
            (batch.receiptLevel, batch.replyTo) = (level, replyTo)
            func finish() async throws -> Bool {
                try await fixture.streams.mailboxes.finish(
                    entry,
                    of: command,
                    identity: SendIdentity(of: command, source: entry.source),
                    by: me,
                    tag: keys.tag,
                    home: keys.tag,
                    recipients: 2,
                    batches: [batch],
                )
            }
            #expect(try await finish())
            // Once: the entry is nobody's any more.
            #expect(try await !finish())
            let batches = try await fixture.messages(of: keys.outcomes).map { try OutcomeBatch.decode($0) }
            let receipts = try await fixture.messages(of: keys.receipts).map { try SendReceipt.decode($0) }
            let isWritten = level == .summary && replyTo.isEmpty
            #expect(batches.map(\.receiptIsWritten) == [isWritten] && batches.map(\.planned) == [2])
            #expect(receipts.map(\.kind) == (isWritten ? [.final] : []))
            #expect(receipts.allSatisfy { $0 == SendReceipt(final: batches[0]) && $0.counts == batch.counts })
            #expect(try await fixture.messages(of: keys.mailbox(.express)).isEmpty)
        }
    }

    @Test func `A full mailbox says so and takes nothing`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            for index in 0..<3 {
                let id = "same-home"
                let command = fixture.command(id: id, key: "k", title: "\(index)")
                _ = try await streams.mailboxes.publish(command, lane: .bulk, mailboxEntriesMax: 1)
            }
            let key = "k"
            let next = SendIdentity(of: fixture.command(id: "x", key: key), source: "")
            #expect(next.home == key)
            // The mailbox holds one; a new send with the same home finds it full.
            let result = try await streams.mailboxes.publish(
                fixture.command(id: "k"),
                lane: .bulk,
                mailboxEntriesMax: 1
            )
            #expect(result == .full(entries: 1, comeBackMilliseconds: 1_000))
        }
    }

    @Test func `Sixteen publishers of the same command at once, three times each, are one send`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let results = try await withThrowingTaskGroup(of: Mailboxes.PublishResult.self) { group in
                for publisher in 0..<16 {
                    group.addTask {
                        var last = Mailboxes.PublishResult.duplicate(send: "")
                        for attempt in 0..<3 {
                            let command = fixture.command(id: "s\(publisher)", key: "order-7")
                            let result = try await streams.mailboxes.publish(command, lane: .express)
                            if attempt == 0 || last == .duplicate(send: "") { last = result }
                        }
                        return last
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            let taken = results.compactMap { result -> String? in
                guard case .new(let send, _) = result else { return nil }
                return send
            }
            let send = try #require(taken.first)
            #expect(taken.count == 1)
            #expect(results.filter { $0 == .duplicate(send: send) }.count == 15)
            let home = streams.home(app: "shop", "order-7")
            let length = RedisCommand("XLEN", .text(home.mailbox(.express)))
            #expect(try await fixture.client.send(length, on: home.tag).root.integer == 1)
        }
    }

    @Test func `Sends due at the very same time are all planned, each once`() async throws {
        try await StreamsFixture.with { fixture in
            let (streams, keys) = (fixture.streams, fixture.keys)
            let time = try await fixture.client.send(.init("TIME"), on: keys.tag).root[0].integer ?? 0
            let due = UnixMilliseconds(time * 1_000 + 3_600_000)
            // More than one call moves, all of one shard.
            let sends = (0..<1_000).map { "at-noon-\($0)" }.filter { streams.home(app: "shop", $0) == keys }.prefix(250)
            #expect(sends.count == 250)
            for send in sends {
                let command = fixture.command(id: send)
                let entry = StreamEntry(stream: keys.mailbox(.bulk), id: "1-1", message: try command.encode())
                _ = try await streams.mailboxes.accept(
                    command,
                    identity: SendIdentity(of: command, source: "\(entry.origin)/\(send)"),
                    routes: [RouteNumber(7)],
                    from: entry,
                    by: fixture.consumer("one"),
                    due: due,
                )
            }
            #expect(try await streams.work.moveDue(tag: keys.tag).moved == 0)
            // The hour passes.
            let waiting = try await fixture.client.send(RedisCommand("ZRANGE", .text(keys.due), 0, -1), on: keys.tag)
                .root
                .children.compactMap(\.string)
            let now = waiting.flatMap { [RedisArgument.integer(time * 1_000), .text($0)] }
            _ = try await fixture.client.send(RedisCommand("ZADD", [.text(keys.due)] + now), on: keys.tag)
            var moved: [Int] = []
            repeat { moved.append(try await streams.work.moveDue(tag: keys.tag).moved) } while moved.last != 0
            #expect(moved.reduce(0, +) == 250)
            #expect(moved.allSatisfy { $0 <= StreamLimits.dueBatchMax })
            let plans = RedisCommand("XRANGE", .text(keys.plan(RouteNumber(7))), "-", "+")
            let planned = try await fixture.client.send(plans, on: keys.tag).root.children.map { $0[1][1].string ?? "" }
            #expect(planned.count == 250 && Set(planned) == Set(sends.map { "shop/\($0)" }))
        }
    }

    @Test func `An attempt is the unit's own: a take-over counts a delivery and spends none`() async throws {
        try await StreamsFixture.with { fixture in
            let (streams, keys) = (fixture.streams, fixture.keys)
            let work = keys.work(RouteNumber(7), .bulk)
            var unit = WorkUnit(send: "shop/s", route: RouteNumber(7), recipients: .addresses([0, 1]))
            unit.attempt = 3
            unit.firstAttemptAt = UnixMilliseconds(1_000)
            let first = try await fixture.deliver(try unit.encode(), to: work, consumer: fixture.consumer("dead"))
            #expect(first.deliveries == 1)
            var taken: [StreamEntry] = []
            try await eventually("another takes it over") {
                taken = try await streams.entries.claim(
                    [.init(work)],
                    by: fixture.consumer("next"),
                    tag: keys.tag,
                    leaseMilliseconds: 200,
                )[0].entries
                return !taken.isEmpty
            }
            let entry = try #require(taken.first)
            #expect(entry.deliveries == 2)
            #expect(try WorkUnit.decode(entry.message) == unit)
        }
    }

    @Test func `When to come back follows the pace at which the mailbox is emptied`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let home = streams.home(app: "shop", "k")
            func publish(_ title: String) async throws -> Mailboxes.PublishResult {
                var command = fixture.command(id: "k", title: title)
                command.id = "k"
                return try await streams.mailboxes.publish(command, lane: .bulk, mailboxEntriesMax: 20)
            }
            func fill(_ count: Int) async throws {
                for _ in 0..<count {
                    _ = try await fixture.client.send(
                        RedisCommand("XADD", .text(home.mailbox(.bulk)), "*", "m", "x"),
                        on: home.tag,
                    )
                }
            }
            func comeBack() async throws -> Int64 {
                let result = try await publish("one")
                guard case .full(20, let milliseconds) = result else { throw Unexpected(result) }
                return milliseconds
            }
            try await fill(20)
            #expect(try await comeBack() == 1_000, "nothing is known of the pace yet")
            // Ten are taken in a bit more than a second: a tenth of the mailbox, two, takes a fifth of that.
            let trim = RedisCommand("XTRIM", .text(home.mailbox(.bulk)), "MAXLEN", 10)
            _ = try await fixture.client.send(trim, on: home.tag)
            try await fill(10)
            try await Task.sleep(for: .milliseconds(1_050))
            let moderate = try await comeBack()
            #expect((200...10_000).contains(moderate))
            try await Task.sleep(for: .milliseconds(1_050))
            #expect(try await comeBack() == 30_000, "nobody takes any")
        }
    }

    @Test func `An accepted command is kept once, whoever asks again`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let me = fixture.consumer("one")
            let command = fixture.command(id: "send-1")
            let home = streams.home(app: "shop", "send-1")
            let entry = StreamEntry(stream: home.mailbox(.bulk), id: "1-1", message: try command.encode())
            let identity = SendIdentity(of: command, source: entry.source)
            let first = try await streams.mailboxes.accept(
                command,
                identity: identity,
                routes: Self.routes,
                from: entry,
                by: me,
                due: nil
            )
            #expect(first.admission == .new)
            let again = try await streams.mailboxes.accept(
                command,
                identity: identity,
                routes: Self.routes,
                from: entry,
                by: me,
                due: nil
            )
            #expect(again.admission == .known)
            let elsewhere = StreamEntry(stream: home.mailbox(.express), id: "9-9", message: entry.message)
            let twin = SendIdentity(of: command, source: elsewhere.origin)
            let duplicate = try await streams.mailboxes.accept(
                command,
                identity: twin,
                routes: Self.routes,
                from: elsewhere,
                by: me,
                due: nil,
            )
            #expect(duplicate.admission == .duplicate(send: "send-1"))
            let changed = fixture.command(id: "send-1", title: "Changed")
            let clash = try await streams.mailboxes.accept(
                changed,
                identity: SendIdentity(of: changed, source: elsewhere.origin),
                routes: Self.routes,
                from: elsewhere,
                by: me,
                due: nil,
            )
            #expect(clash.admission == .conflict(send: "send-1"))
            #expect(try await Self.planned(home, fixture) == [1, 1])
            #expect(try await streams.mailboxes.command(of: "shop/send-1", tag: home.tag) == command)
            let ledger = try await streams.outcomes.ledger(app: "shop", send: "send-1")
            #expect(ledger?.state == .running && ledger?.isPlanning == true && ledger?.planned == 0)
        }
    }

    @Test func `A send with a later time waits in due and then is planned on every route`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            func accept(_ id: String, after milliseconds: Int64) async throws -> StreamKeys {
                let command = fixture.command(id: id)
                let home = streams.home(app: "shop", id)
                let entry = StreamEntry(stream: home.mailbox(.bulk), id: "1-1", message: try command.encode())
                let time = try await fixture.client.send(.init("TIME"), on: home.tag).root
                let now = (time[0].integer ?? 0) * 1_000 + (time[1].integer ?? 0) / 1_000
                _ = try await streams.mailboxes.accept(
                    command,
                    identity: SendIdentity(of: command, source: entry.source),
                    routes: Self.routes,
                    from: entry,
                    by: fixture.consumer("one"),
                    due: UnixMilliseconds(now + milliseconds),
                )
                return home
            }
            let far = try await accept("tomorrow", after: 86_400_000)
            let early = try await streams.work.moveDue(tag: far.tag)
            #expect(early.moved == 0)
            let wait = try #require(early.nextMilliseconds)
            #expect(wait > 0 && wait <= 86_400_000)
            #expect(try await Self.planned(far, fixture) == [0, 0])

            let near = try await accept("soon", after: 1_000)
            try await eventually("it is planned on both routes, once") {
                _ = try await streams.work.moveDue(tag: near.tag)
                return try await Self.planned(near, fixture) == [1, 1]
            }
            #expect(try await streams.work.moveDue(tag: near.tag).moved == 0)
        }
    }

    @Test func `A direct send is admitted to one origin only`() async throws {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "", key: "code-1")
            let identity = SendIdentity(of: command, source: "{q1}in:express/1-1")
            var admissions: [Mailboxes.Admission] = []
            for origin in ["{q1}in:express/1-1", "{q1}in:express/1-1", "{q9}in:express/2-2"] {
                admissions.append(try await fixture.admit(command, origin))
            }
            #expect(admissions == [.new, .new, .duplicate(send: identity.send)])
        }
    }
}

struct Unexpected: Error {
    let what: String

    init(_ what: Any) { self.what = "\(what)" }
}
