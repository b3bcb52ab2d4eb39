import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import ApusStreams

@Suite struct ShardConsumerTests {
    /// Records the entries that a handler was given, by stream.
    private final class Handled: Sendable {
        private let entries = Mutex<[StreamEntry]>([])

        func add(_ entry: StreamEntry) { self.entries.withLock { $0.append(entry) } }
        func count(_ stream: String) -> Int { self.entries.withLock { $0.count { $0.stream == stream } } }
        var all: [StreamEntry] { self.entries.withLock { $0 } }
        /// Entries that were handled, however often.
        var different: Int { Set(self.all.map(\.origin)).count }
    }

    /// A latch that handlers wait at.
    private final class Latch: Sendable {
        private let state = Mutex<(isOpen: Bool, waiters: [CheckedContinuation<Void, Never>])>((false, []))

        func wait() async {
            await withCheckedContinuation { continuation in
                let isOpen = self.state.withLock { state in
                    if !state.isOpen { state.waiters.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
        }

        func open() {
            let waiters = self.state.withLock { state in
                state.isOpen = true
                defer { state.waiters = [] }
                return state.waiters
            }
            for waiter in waiters { waiter.resume() }
        }
    }

    private static func consumer(
        _ fixture: StreamsFixture,
        _ feeds: [ShardConsumer.Feed],
        name: String = "one",
        leaseMilliseconds: Int64 = 10_000,
        gate: PoisonGate = PoisonGate(),
        silenceMax: Duration = StreamLimits.consumerSilenceMax,
        observer: any StreamObserver = RecordingObserver(),
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        handle: @escaping @Sendable (StreamEntry, EntryTurn) async throws -> Void,
    ) -> ShardConsumer {
        ShardConsumer(
            tag: fixture.keys.tag,
            streams: fixture.streams,
            consumer: fixture.consumer(name),
            feeds: feeds,
            leaseMilliseconds: leaseMilliseconds,
            gate: gate,
            silenceMax: silenceMax,
            observer: observer,
            logger: logger,
            handle: handle,
        )
    }

    /// A consumer of one entry at a time, whose lease is so long that within a test nothing comes back by it.
    private static func patientConsumer(
        _ fixture: StreamsFixture,
        _ stream: String,
        _ handled: Handled,
        _ handle: @escaping @Sendable (StreamEntry) async throws -> Void,
    ) -> ShardConsumer {
        let feed = ShardConsumer.Feed(stream, inHandMax: 1, countPerRead: 1)
        return Self.consumer(fixture, [feed], leaseMilliseconds: 300_000) { entry, _ in
            handled.add(entry)
            try await handle(entry)
        }
    }

    /// Runs a consumer while `body` runs, then until it has ended by itself.
    private static func running(_ consumer: ShardConsumer, _ body: () async throws -> Void) async throws {
        let run = Task { await consumer.run() }
        do {
            try await body()
        } catch {
            consumer.stop()
            run.cancel()
            await run.value
            throw error
        }
        consumer.stop()
        await run.value
    }

    private static func write(_ count: Int, to stream: String, _ fixture: StreamsFixture) async throws {
        for number in 0..<count {
            let command = RedisCommand("XADD", .text(stream), "*", "m", .bytes(Array("\(number)".utf8)))
            _ = try await fixture.client.send(command, on: fixture.keys.tag)
        }
    }

    /// Takes over what was handed back, and returns the deliveries of each entry.
    private static func takenOver(_ stream: String, _ fixture: StreamsFixture) async throws -> [UInt32] {
        let claimed = try await fixture.streams.entries.claim(
            [Entries.ClaimRequest(stream)],
            by: fixture.consumer("two"),
            tag: fixture.keys.tag,
            leaseMilliseconds: 1_000,
        )
        return claimed[0].entries.map(\.deliveries)
    }

    private static func done(_ entry: StreamEntry, _ fixture: StreamsFixture, by name: String = "one") async throws {
        try await fixture.streams.entries.acknowledge(
            [entry],
            by: fixture.consumer(name),
            tag: fixture.keys.tag,
        )
    }

    @Test func `What a read delivered whose answer was lost is read again, long before its lease is over`() async throws
    {
        try await StreamsFixture.with { fixture in
            let mailbox = fixture.keys.mailbox(.express)
            // Delivered to this consumer, which never received it.
            let lost = try await fixture.deliver([1], to: mailbox, consumer: fixture.consumer("one"))
            let others = try await fixture.deliver([2], to: mailbox, consumer: fixture.consumer("other"))
            let handled = Handled()
            let consumer = Self.consumer(
                fixture,
                [ShardConsumer.Feed(mailbox, inHandMax: 64, countPerRead: 64)],
                leaseMilliseconds: 600_000,
            ) { entry, _ in
                handled.add(entry)
                try await Self.done(entry, fixture)
            }
            try await Self.running(consumer) {
                try await Self.write(1, to: mailbox, fixture)
                try await eventually("the consumer reads") { handled.all.count == 1 }
                try await fixture.server.untilClientBlocks()
                _ = try await fixture.server.command("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES")
                try await eventually("the lost entry is handled") { handled.all.count == 2 }
                try await Self.write(1, to: mailbox, fixture)
                try await eventually("reading goes on") { handled.all.count == 3 }
            }
            #expect(handled.all[1].id == lost.id && handled.all[1].message == [1] && handled.all[1].deliveries == 2)
            #expect(!handled.all.map(\.id).contains(others.id))
            #expect(try await fixture.pending(mailbox) == 1)
        }
    }

    @Test func `An entry that can never be handled is buried at once, and any other failure lets it come back`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let mailbox = fixture.keys.mailbox(.express)
            let handled = Handled()
            let consumer = Self.consumer(
                fixture,
                [ShardConsumer.Feed(mailbox, inHandMax: 64, countPerRead: 64)],
                leaseMilliseconds: 1_000,
            ) { entry, _ in
                handled.add(entry)
                let isFirstOfAll = handled.all.count == 1
                if isFirstOfAll { throw RedisError(.wrongType, "WRONGTYPE") }
                if entry.burial == nil { throw MessageError(.limitExceeded, field: "recipients", "must be fewer") }
                try await Self.done(entry, fixture)
            }
            try await Self.running(consumer) {
                try await Self.write(1, to: mailbox, fixture)
                try await eventually("it is buried") {
                    guard handled.all.count == 3 else { return false }
                    return try await fixture.pending(mailbox) == 0
                }
            }
            #expect(handled.all.map(\.deliveries) == [1, 2, 2])
            #expect(handled.all.map { $0.burial != nil } == [false, false, true])
            #expect(
                handled.all[2].burial?.contains("recipients must be fewer") == true,
                "\(handled.all[2].burial ?? "")"
            )
            let worn = StreamEntry(stream: mailbox, id: "1-1", message: [], deliveries: StreamLimits.deliveriesMax)
            #expect(worn.burial == "delivered \(StreamLimits.deliveriesMax) times without progress")
        }
    }

    @Test func `A route that is stuck keeps no other waiting, and takes no more than its credit`() async throws {
        try await StreamsFixture.with { fixture in
            let (stuck, free) = (fixture.keys.work(RouteNumber(1), .bulk), fixture.keys.work(RouteNumber(2), .bulk))
            let express = fixture.keys.mailbox(.express)
            let (handled, latch) = (Handled(), Latch())
            let feeds = [
                ShardConsumer.Feed(express, inHandMax: 64, countPerRead: 64),
                ShardConsumer.Feed(stuck, inHandMax: 4, countPerRead: 4),
                ShardConsumer.Feed(free, inHandMax: 4, countPerRead: 4),
            ]
            let consumer = Self.consumer(fixture, feeds) { entry, _ in
                handled.add(entry)
                if entry.stream == stuck { await latch.wait() }
                try await Self.done(entry, fixture)
            }
            try await Self.write(40, to: stuck, fixture)
            try await Self.running(consumer) {
                try await eventually("the credit is used up") { handled.count(stuck) == 4 }
                try await Self.write(200, to: free, fixture)
                try await Self.write(100, to: express, fixture)
                try await eventually("the others are done") {
                    handled.count(free) == 200 && handled.count(express) == 100
                }
                #expect(handled.count(stuck) == 4)
                #expect(try await fixture.pending(stuck) == 4)
                latch.open()
                try await eventually("the backlog is read when credit returns") { handled.count(stuck) == 40 }
                // Empty again: the next one is waited for together with all others.
                try await Self.write(1, to: stuck, fixture)
                try await eventually("a late one arrives", timeout: .seconds(1)) { handled.count(stuck) == 41 }
            }
            #expect(try await fixture.length(stuck) == 0)
            #expect(handled.all.count == 341)
        }
    }

    /// Writes what no client of ours could: Redis makes the message.
    private static func writeLarge(_ megabytes: Int64, to stream: String, _ fixture: StreamsFixture) async throws {
        let script = "return redis.call('XADD', KEYS[1], '*', 'm', string.rep('x', ARGV[1] * 1048576))"
        _ = try await fixture.server.command("EVAL", .text(script), 1, .text(stream), .integer(megabytes))
    }

    @Test func `An entry that is larger than a reply may be is handled by its beginning, and others go on`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (express, bulk) = (fixture.keys.mailbox(.express), fixture.keys.mailbox(.bulk))
            let handled = Handled()
            let feeds = [
                ShardConsumer.Feed(express, inHandMax: 8, countPerRead: 8, watch: .urgent),
                ShardConsumer.Feed(bulk, inHandMax: 8, countPerRead: 8),
            ]
            try await Self.writeLarge(17, to: bulk, fixture)
            // The consumer's own client loses its connections.
            let writer = try RedisClient(
                configuration: fixture.server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            let beside = StreamsFixture(server: fixture.server, client: writer, streams: fixture.streams)
            let consumer = Self.consumer(fixture, feeds, leaseMilliseconds: 4_000) { entry, _ in
                handled.add(entry)
                try await Self.done(entry, fixture)
            }
            try await Self.running(consumer) {
                try await Self.write(1, to: express, beside)
                try await Self.writeLarge(20, to: express, fixture)
                try await Self.write(1, to: express, beside)
                // And one of more fields than an array may have elements.
                var fields: [RedisArgument] = [.text(bulk), "*"]
                for _ in 0..<60_000 { fields += ["f", "v"] }
                _ = try await writer.send(RedisCommand("XADD", fields + ["m", "x"]), on: fixture.keys.tag)
                try await Self.write(1, to: bulk, beside)
                try await eventually("all are handled: \(handled.all.map(\.message.count))", timeout: .seconds(60)) {
                    handled.different == 6
                }
            }
            let large = handled.all.filter { $0.message.count > 1 }.map(\.message.count)
            #expect(Set(large) == [StreamLimits.entryBytesMax])
            for stream in [express, bulk] { #expect(try await beside.length(stream) == 0) }
            await writer.close()
        }
    }

    @Test func `A hundred streams take two blocking connections, and all of them are read`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = (1...100).map { fixture.keys.work(RouteNumber(UInt32($0)), .bulk) }
            let handled = Handled()
            let feeds = streams.map { ShardConsumer.Feed($0, inHandMax: 2, countPerRead: 2) }
            let consumer = Self.consumer(fixture, feeds) { entry, _ in
                handled.add(entry)
                try await Self.done(entry, fixture)
            }
            func blocked() async throws -> Int {
                let list = try await fixture.server.command("CLIENT", "LIST").root.string ?? ""
                return list.split(separator: "\n").count { $0.contains("cmd=xreadgroup") && $0.contains("flags=b") }
            }
            try await Self.running(consumer) {
                try await eventually("two reads wait") { try await blocked() == 2 }
                for stream in streams { try await Self.write(1, to: stream, fixture) }
                try await eventually("all are handled") { handled.all.count == 100 }
                #expect(Set(handled.all.map(\.stream)) == Set(streams))
                try await eventually("two reads wait again") { try await blocked() == 2 }
            }
            #expect(try await blocked() == 0)
        }
    }

    @Test func `An idle shard costs a read every two seconds and a look at what others left every second`() async throws
    {
        try await StreamsFixture.with { fixture in
            let streams = (1...14).map { fixture.keys.work(RouteNumber(UInt32($0)), .bulk) }
            let feeds = streams.map { ShardConsumer.Feed($0, inHandMax: 4, countPerRead: 4) }
            let consumer = Self.consumer(fixture, feeds) { _, _ in }
            func calls(_ name: String) async throws -> Int {
                let info = try await fixture.server.command("INFO", "commandstats").root.string ?? ""
                let line = info.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(name):calls=") }
                return line.flatMap { Int($0.split(separator: "=")[1].prefix { $0.isNumber }) } ?? 0
            }
            try await Self.running(consumer) {
                try await eventually("the sweep is over") { try await calls("xinfo|consumers") == 14 }
                let start = ContinuousClock.now
                let before = (try await calls("xreadgroup"), try await calls("fcall"))
                try await Task.sleep(for: .seconds(4))
                let after = (try await calls("xreadgroup"), try await calls("fcall"))
                let seconds = Int((ContinuousClock.now - start) / .seconds(1)) + 1
                #expect(after.0 - before.0 <= seconds / 2 + 1)
                #expect(after.1 - before.1 <= seconds + 1)
            }
        }
    }

    @Test(arguments: ["FLUSHALL", "XGROUP", "DEL"])
    func `A stream or group that vanishes is made again from 0, loudly and without a hot loop`(
        _ way: String
    ) async throws {
        try await StreamsFixture.with { fixture in
            let streams = [fixture.keys.mailbox(.express), fixture.keys.work(RouteNumber(1), .bulk)]
            let (handled, observer, log) = (Handled(), RecordingObserver(), RecordingLog())
            let feeds = streams.map { ShardConsumer.Feed($0, inHandMax: 4, countPerRead: 4) }
            let consumer = Self.consumer(fixture, feeds, observer: observer, logger: log.logger) { entry, _ in
                handled.add(entry)
                try await Self.done(entry, fixture)
            }
            try await Self.running(consumer) {
                for stream in streams { try await Self.write(1, to: stream, fixture) }
                try await eventually("both are read") { handled.all.count == 2 }
                for _ in 0..<3 {
                    switch way {
                    case "FLUSHALL": _ = try await fixture.server.command("FLUSHALL")
                    case "DEL": _ = try await fixture.server.command("DEL", .text(streams[0]))
                    default:
                        let group = StreamGroup.dispatcher
                        _ = try await fixture.server.command("XGROUP", "DESTROY", .text(streams[0]), .text(group))
                    }
                    let before = handled.different
                    // Written before the group is there again.
                    for stream in streams { try await Self.write(1, to: stream, fixture) }
                    try await eventually("work goes on") { handled.different == before + 2 }
                }
            }
            #expect(handled.different == 8)
            let (lost, errors) = (observer.counts.groupsLost, log.count(.error))
            #expect((3...9).contains(lost))
            #expect((3...9).contains(errors))
        }
    }

    @Test func `A group that is destroyed again and again costs a few calls a second`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.mailbox(.express)
            let (observer, log) = (RecordingObserver(), RecordingLog())
            let feed = ShardConsumer.Feed(stream, inHandMax: 4, countPerRead: 4)
            let consumer = Self.consumer(fixture, [feed], observer: observer, logger: log.logger) { _, _ in }
            let start = ContinuousClock.now
            try await Self.running(consumer) {
                while .now - start < .seconds(2) || (observer.counts.groupsLost < 2 && .now - start < .seconds(60)) {
                    _ = try? await fixture.server.command("XGROUP", "DESTROY", .text(stream), "dispatcher")
                }
            }
            // Each loss is answered after 100 ms at least.
            let most = Int((ContinuousClock.now - start) / .milliseconds(100)) + 1
            #expect((2...most).contains(observer.counts.groupsLost))
            #expect(log.count(.error) <= most)
        }
    }

    @Test func `What is in hand keeps its lease, and what a dead owner left is taken over after one`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let (mine, other) = (Handled(), Handled())
            let latch = Latch()
            let feed = ShardConsumer.Feed(stream, inHandMax: 1, countPerRead: 1)
            let left = try await fixture.deliver([1], to: stream, consumer: fixture.consumer("dead"))
            let one = Self.consumer(fixture, [feed], leaseMilliseconds: 2_000) { entry, _ in
                mine.add(entry)
                await latch.wait()
                try await Self.done(entry, fixture)
            }
            let two = Self.consumer(fixture, [feed], name: "two", leaseMilliseconds: 2_000) { entry, _ in
                other.add(entry)
                try await Self.done(entry, fixture, by: "two")
            }
            try await Self.running(one) {
                try await eventually("the dead one's entry is taken over") { mine.all.map(\.id) == [left.id] }
                #expect(mine.all.map(\.deliveries) == [2])
                try await Self.running(two) {
                    // For more than two leases the second sees it pending, and never idle for long enough.
                    try await Task.sleep(for: .seconds(5))
                    #expect(other.all.isEmpty && mine.all.count == 1)
                }
                latch.open()
            }
            #expect(try await fixture.length(stream) == 0)
        }
    }

    @Test func `A stop hands back what has not begun, as if it had never been delivered`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.mailbox(.express)
            let feed = ShardConsumer.Feed(stream, inHandMax: 8, countPerRead: 8)
            let (handled, latch) = (Handled(), Latch())
            // Poison entries, of which the first never gets its turn: another is in hand.
            let gate = PoisonGate(times: .init(emptyingMax: .seconds(60), turnMax: .seconds(60)))
            let consumer = Self.consumer(fixture, [feed], leaseMilliseconds: 400, gate: gate) { entry, _ in
                handled.add(entry)
                await latch.wait()
                try await Self.done(entry, fixture)
            }
            let poison = try await fixture.deliver([1], to: stream, consumer: fixture.consumer("dead"))
            let claim = RedisCommand(
                "XCLAIM",
                .text(stream),
                "dispatcher",
                "dead",
                "0",
                .text(poison.id),
                "RETRYCOUNT",
                "2",
                "JUSTID"
            )
            _ = try await fixture.client.send(claim, on: fixture.keys.tag)
            try await Self.write(1, to: stream, fixture)
            let run = Task { await consumer.run() }
            try await eventually("the healthy one is in hand") { handled.all.count == 1 }
            func pending() async throws -> [String: (owner: String, deliveries: Int64)] {
                let command = RedisCommand("XPENDING", .text(stream), "dispatcher", "-", "+", "10")
                var found: [String: (String, Int64)] = [:]
                for entry in try await fixture.client.send(command, on: fixture.keys.tag).root.children {
                    found[entry[0].string ?? ""] = (entry[1].string ?? "", entry[3].integer ?? 0)
                }
                return found
            }
            try await eventually("the poison entry is taken over") { try await pending()[poison.id]?.owner == "one" }
            consumer.stop()
            try await eventually("it is handed back") {
                let entry = try await pending()[poison.id]
                return entry?.deliveries == 2
            }
            #expect(handled.all.count == 1)
            latch.open()
            await run.value
            #expect(try await fixture.length(stream) == 1)
            // A renewal that was under way may have come after it: then only when the lease is over.
            try await eventually("another takes it", timeout: .seconds(60)) {
                let claimed = try await fixture.streams.entries.claim(
                    [.init(stream)],
                    by: fixture.consumer("successor"),
                    tag: fixture.keys.tag,
                    leaseMilliseconds: 10_000
                )
                guard !claimed[0].entries.isEmpty else { return false }
                #expect(claimed[0].entries.map(\.deliveries) == [3])
                return true
            }
        }
    }

    @Test func `That Redis is full is held against no entry, however long it lasts`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let handled = Handled()
            let feed = ShardConsumer.Feed(stream, inHandMax: 4, countPerRead: 4)
            let consumer = Self.consumer(fixture, [feed], leaseMilliseconds: 800) { entry, _ in
                handled.add(entry)
                // It fills, so it is refused.
                _ = try await fixture.streams.mailboxes.publish(fixture.command(id: "of-\(entry.id)"), lane: .bulk)
                try await Self.done(entry, fixture)
            }
            let reader = StreamReader(client: fixture.client, tag: fixture.keys.tag, consumer: fixture.consumer("one"))
            try await reader.ensure([stream])
            try await Self.write(4, to: stream, fixture)
            _ = try await fixture.server.command("CONFIG", "SET", "maxmemory", "1")
            try await Self.running(consumer) {
                let deliveries = 4 * Int(StreamLimits.deliveriesMax + 2) * (StreamLimits.outagesPerDeliveryMax + 1)
                try await eventually("they came back more often than poison may", timeout: .seconds(120)) {
                    handled.all.count >= deliveries
                }
                _ = try await fixture.server.command("CONFIG", "SET", "maxmemory", "0")
                try await eventually("all are handled", timeout: .seconds(120)) {
                    try await fixture.length(stream) == 0
                }
            }
            #expect(handled.all.allSatisfy { $0.deliveries <= StreamLimits.deliveriesTogetherMax })
            #expect(handled.different == 4)
        }
    }

    @Test(arguments: [1, 2, 3, 4])
    func `What an outage kept from being handled begins again once it is over, as the same delivery`(
        _ deliveries: Int
    ) async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let handled = Handled()
            let consumer = Self.patientConsumer(fixture, stream, handled) { entry in
                guard handled.all.count == 3 else { throw RedisError(.busy, "BUSY") }
                try await Self.done(entry, fixture)
            }
            if deliveries == 1 {
                try await Self.write(1, to: stream, fixture)
            } else {
                _ = try await Self.leave("left", deliveries: deliveries - 1, in: stream, fixture)
            }
            try await Self.running(consumer) {
                try await eventually("it is handled") { try await fixture.length(stream) == 0 }
            }
            let expected = [deliveries] + Array(repeating: max(2, deliveries), count: 2)
            #expect(handled.all.map { Int($0.deliveries) } == expected)
        }
    }

    @Test func `A poison entry that has made progress counts anew when it begins again`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let handled = Handled()
            let consumer = Self.patientConsumer(fixture, stream, handled) { entry in
                guard handled.all.count == 1 else { return try await Self.done(entry, fixture) }
                // As a step of a plan does.
                let owned = Entries.Owned(stream: stream, id: entry.id, deliveriesMax: 1)
                try await fixture.streams.entries.renew([owned], by: fixture.consumer("one"), tag: fixture.keys.tag)
                throw RedisError(.busy, "BUSY")
            }
            _ = try await Self.leave("plan", deliveries: 3, in: stream, fixture)
            try await Self.running(consumer) {
                try await eventually("it is handled") { try await fixture.length(stream) == 0 }
            }
            #expect(handled.all.map(\.deliveries) == [4, 2])
        }
    }

    @Test func `A feed of one entry at a time keeps its order when one begins again`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let handled = Handled()
            let consumer = Self.patientConsumer(fixture, stream, handled) { entry in
                guard entry.deliveries > 1 || handled.all.count > 2 else { throw RedisError(.busy, "BUSY") }
                try await Self.done(entry, fixture)
            }
            try await Self.write(3, to: stream, fixture)
            try await Self.running(consumer) {
                try await eventually("all are handled") { try await fixture.length(stream) == 0 }
            }
            #expect(handled.all.map { String(decoding: $0.message, as: UTF8.self) } == ["0", "0", "1", "2"])
        }
    }

    @Test func `What failed and became another's meanwhile does not begin again`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let handled = Handled()
            let consumer = Self.patientConsumer(fixture, stream, handled) { entry in
                let claim = RedisCommand("XCLAIM", .text(stream), "dispatcher", "other", "0", .text(entry.id), "JUSTID")
                _ = try await fixture.client.send(claim, on: fixture.keys.tag)
                throw RedisError(.busy, "BUSY")
            }
            try await Self.write(2, to: stream, fixture)
            try await Self.running(consumer) {
                // The first one is out of hand, or the second could not begin.
                try await eventually("both have begun") { handled.different == 2 }
            }
            #expect(handled.all.count == 2)
            #expect(try await fixture.pending(stream) == 2)
        }
    }

    @Test func `A stop hands back what is to begin again, as no first delivery`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let handled = Handled()
            let consumer = Self.patientConsumer(fixture, stream, handled) { entry in
                throw RedisError(.busy, "BUSY")
            }
            try await Self.write(1, to: stream, fixture)
            try await Self.running(consumer) {
                try await eventually("it has begun again") { handled.all.count >= 2 }
            }
            #expect(try await Self.takenOver(stream, fixture) == [2])
        }
    }

    @Test func `Who may wait for nothing hands back what has begun, as no first delivery`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.mailbox(.express)
            let (handled, latch) = (Handled(), Latch())
            let consumer = Self.patientConsumer(fixture, stream, handled) { _ in await latch.wait() }
            try await Self.write(1, to: stream, fixture)
            let run = Task { await consumer.run() }
            try await eventually("it has begun") { handled.all.count == 1 }
            run.cancel()
            await run.value
            #expect(try await Self.takenOver(stream, fixture) == [2])
            latch.open()
        }
    }

    @Test func `What fails by itself counts, whatever Redis says of it`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let handled = Handled()
            let feed = ShardConsumer.Feed(stream, inHandMax: 1, countPerRead: 1)
            let consumer = Self.consumer(fixture, [feed], leaseMilliseconds: 800) { entry, _ in
                handled.add(entry)
                guard entry.deliveries < StreamLimits.deliveriesMax else { return try await Self.done(entry, fixture) }
                throw RedisError(.wrongType, "a key that holds something else")
            }
            try await Self.write(1, to: stream, fixture)
            try await Self.running(consumer) {
                try await eventually("it is buried", timeout: .seconds(120)) { try await fixture.length(stream) == 0 }
            }
            // In each delivery it begins again a few times; poison entries have one turn.
            let again = StreamLimits.refusalsPerDeliveryMax
            let expected: [UInt32] = [1] + Array(repeating: 2, count: again + again + 1) + [3, 4, 5]
            #expect(handled.all.map(\.deliveries) == expected)
        }
    }

    /// An entry that its dead owner had begun so many times.
    private static func leave(
        _ name: String,
        deliveries: Int,
        in stream: String,
        _ fixture: StreamsFixture
    ) async throws
        -> StreamEntry
    {
        let entry = try await fixture.deliver(Array(name.utf8), to: stream, consumer: fixture.consumer("dead"))
        let claim = RedisCommand(
            "XCLAIM",
            .text(stream),
            "dispatcher",
            "dead",
            "0",
            .text(entry.id),
            "IDLE",
            "3600000",
            "RETRYCOUNT",
            .integer(deliveries),
            "JUSTID"
        )
        _ = try await fixture.client.send(claim, on: fixture.keys.tag)
        return entry
    }

    @Test func `A poison entry waits for what was in hand, and keeps no first delivery waiting`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let feed = ShardConsumer.Feed(stream, inHandMax: 8, countPerRead: 1)
            let events = Mutex<[String]>([])
            let (slow, solo) = (Latch(), Latch())
            _ = try await Self.leave("poison entry", deliveries: 3, in: stream, fixture)
            let gate = PoisonGate(times: .init(lastEmptyingMax: .seconds(60), lastTurnMax: .seconds(60)))
            let consumer = Self.consumer(fixture, [feed], leaseMilliseconds: 400, gate: gate) { entry, turn in
                let name = String(decoding: entry.message, as: UTF8.self)
                events.withLock { $0.append("\(name) begins") }
                if name == "poison entry" {
                    await solo.wait()
                    events.withLock { $0.append("poison entry progresses") }
                    turn.progressed()
                } else {
                    await slow.wait()
                    events.withLock { $0.append("\(name) ends") }
                }
                try await Self.done(entry, fixture)
            }
            func count(_ event: String) -> Int { events.withLock { $0.count { $0 == event } } }
            try await Self.write(1, to: stream, fixture)
            try await Self.running(consumer) {
                try await eventually("the poison entry waits") { !gate.isOpen }
                try await Self.write(1, to: stream, fixture)
                try await eventually("another begins while it waits") { count("0 begins") == 2 }
                #expect(count("poison entry begins") == 0)
                slow.open()
                try await eventually("the poison entry has begun") { count("poison entry begins") == 1 }
                try await Self.write(1, to: stream, fixture)
                try await eventually("another goes from its beginning to its end") { count("0 ends") == 3 }
                #expect(count("poison entry progresses") == 0 && !gate.isOpen)
                solo.open()
                try await eventually("all are done") { try await fixture.length(stream) == 0 }
            }
        }
    }

    @Test func `During the turn of a poison entry what came back is excused, and first deliveries count`() async throws
    {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let feed = ShardConsumer.Feed(stream, inHandMax: 8, countPerRead: 1)
            let begun = Mutex<Set<String>>([])
            let latch = Latch()
            let returned = try await Self.leave("returned", deliveries: 1, in: stream, fixture)
            let poison = try await Self.leave("poison entry", deliveries: 2, in: stream, fixture)
            let gate = PoisonGate(times: .init(emptyingMax: .milliseconds(50), turnMax: .seconds(60)))
            let consumer = Self.consumer(fixture, [feed], leaseMilliseconds: 400, gate: gate) { entry, _ in
                _ = begun.withLock { $0.insert(String(decoding: entry.message, as: UTF8.self)) }
                await latch.wait()
                try await Self.done(entry, fixture)
            }
            try await Self.running(consumer) {
                try await eventually("the poison entry has begun") { begun.withLock { $0.contains("poison entry") } }
                try await Self.write(1, to: stream, fixture)
                try await eventually("a first delivery has begun") { begun.withLock { $0.contains("0") } }
                let command = RedisCommand("XPENDING", .text(stream), "dispatcher", "-", "+", "10")
                var deliveries: [String: Int64] = [:]
                for entry in try await fixture.client.send(command, on: fixture.keys.tag).root.children {
                    deliveries[entry[0].string ?? ""] = entry[3].integer
                }
                #expect(deliveries.count == 3 && deliveries[returned.id] == 1 && deliveries[poison.id] == 3)
                #expect(deliveries.values.sorted() == [1, 1, 3])
                latch.open()
                try await eventually("all are done") { try await fixture.length(stream) == 0 }
            }
        }
    }

    @Test func `Consumers that are gone are swept, unless they own something`() async throws {
        try await StreamsFixture.with { fixture in
            let stream = fixture.keys.work(RouteNumber(1), .bulk)
            let owned = try await fixture.deliver([1], to: stream, consumer: fixture.consumer("owner"))
            let read = try await fixture.deliver([2], to: stream, consumer: fixture.consumer("gone"))
            try await Self.done(read, fixture, by: "gone")
            func consumers() async throws -> Set<String> {
                let command = RedisCommand("XINFO", "CONSUMERS", .text(stream), "dispatcher")
                let reply = try await fixture.client.send(command, on: fixture.keys.tag)
                return Set(reply.root.children.compactMap { $0[1].string })
            }
            #expect(try await consumers() == ["owner", "gone"])
            let feed = ShardConsumer.Feed(stream, inHandMax: 1, countPerRead: 1)
            let consumer = Self.consumer(
                fixture,
                [feed],
                leaseMilliseconds: 60_000,
                silenceMax: .milliseconds(500)
            ) { _, _ in }
            try await Self.running(consumer) {
                try await eventually("the one that is gone is swept") { try await consumers() == ["owner"] }
                try await Task.sleep(for: .seconds(2))
                #expect(try await consumers() == ["owner"])
            }
            #expect(try await fixture.pending(stream) == 1 && !owned.id.isEmpty)
        }
    }
}
