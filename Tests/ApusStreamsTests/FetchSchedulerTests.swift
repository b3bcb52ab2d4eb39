import Testing

@testable import ApusStreams

@Suite struct FetchSchedulerTests {
    private static let now = ContinuousClock.now

    private static func scheduler(_ limits: [String: Int], streamsPerReadMax: Int = 64) -> FetchScheduler {
        let feeds = limits.sorted { $0.key < $1.key }.map {
            ShardConsumer.Feed($0.key, inHandMax: $0.value, countPerRead: 8)
        }
        return FetchScheduler(feeds, now: Self.now, streamsPerReadMax: streamsPerReadMax)
    }

    /// Reads that found so many entries, which all have begun.
    private static func read(_ scheduler: inout FetchScheduler, _ found: [String: Int] = [:]) {
        for read in scheduler.takeOwnReads() {
            let count = found[read.stream] ?? 0
            for number in 0..<count { _ = scheduler.arrived(Self.entry(read.stream, number), ownedAt: Self.now) }
            scheduler.ended(read, with: count)
        }
    }

    private static func entry(_ stream: String, _ number: Int) -> StreamEntry {
        StreamEntry(stream: stream, id: "\(number)-0", message: [])
    }

    @Test func `Every stream is read by itself first, and by the blocking read once it is empty`() {
        var scheduler = Self.scheduler(["a": 4, "b": 16])
        #expect(scheduler.watch(group: 0) == nil)
        let reads = scheduler.takeOwnReads()
        #expect(reads.map(\.stream) == ["a", "b"])
        #expect(reads.map(\.count) == [4, 8])
        #expect(scheduler.takeOwnReads().isEmpty)
        for read in reads { scheduler.ended(read, with: 0) }
        #expect(scheduler.takeOwnReads().isEmpty)
        #expect(scheduler.watch(group: 0)?.streams == ["a", "b"])
    }

    @Test func `A feed without credit is neither read nor watched, and is read by itself when it has some again`() {
        var scheduler = Self.scheduler(["a": 4, "b": 16])
        Self.read(&scheduler, ["a": 4])
        #expect(scheduler.takeOwnReads().isEmpty)
        #expect(scheduler.watch(group: 0)?.streams == ["b"])
        _ = scheduler.ended(Self.entry("a", 2))
        let again = scheduler.takeOwnReads()
        #expect(again.map(\.stream) == ["a"] && again.map(\.count) == [1])
        #expect(!scheduler.mustInterrupt(group: 0))
        // Empty by now: after a while the blocking read must wait for it too.
        scheduler.ended(again[0], with: 0)
        #expect(!scheduler.mustInterrupt(group: 0) && scheduler.isLingering)
        scheduler.endLingering()
        #expect(scheduler.mustInterrupt(group: 0) && !scheduler.isLingering)
        scheduler.watchEnded(group: 0, with: [:])
        #expect(!scheduler.mustInterrupt(group: 0))
        #expect(scheduler.watch(group: 0)?.streams == ["a", "b"])
        #expect(scheduler.watch(group: 0)?.count == 1)
    }

    @Test func `Another entry that has the id of one in hand begins when that one has ended`() {
        var scheduler = Self.scheduler(["a": 4])
        let old = Self.entry("a", 1)
        let new = StreamEntry(stream: old.stream, id: old.id, message: [1])
        #expect(scheduler.arrived(old, ownedAt: Self.now) == .begin)
        #expect(scheduler.arrived(new, ownedAt: Self.now) == .known)
        #expect(scheduler.namesInHand == [old.name, new.name])
        #expect(scheduler.ended(old) == new)
        #expect(scheduler.namesInHand == [new.name])
        // The same entry again is no other.
        #expect(scheduler.arrived(new, ownedAt: Self.now) == .known)
        #expect(scheduler.ended(new) == nil)
        #expect(scheduler.namesInHand.isEmpty)
    }

    @Test func `A feed whose entries take all the bytes it may have is not read, and no other waits for it`() {
        var scheduler = FetchScheduler(
            [
                ShardConsumer.Feed("a", inHandMax: 64, bytesInHandMax: 1_000, countPerRead: 8),
                ShardConsumer.Feed("b", inHandMax: 64, bytesInHandMax: 1_000, countPerRead: 8),
            ],
            now: Self.now
        )
        func entry(_ number: Int, _ bytes: Int) -> StreamEntry {
            StreamEntry(stream: "a", id: "\(number)-0", message: Array(repeating: 0, count: bytes))
        }
        let reads = scheduler.takeOwnReads()
        #expect(reads.map(\.count) == [8, 8])
        for number in 0..<3 { #expect(scheduler.arrived(entry(number, 400), ownedAt: Self.now) == .begin) }
        // The same again takes no room twice.
        #expect(scheduler.arrived(entry(2, 400), ownedAt: Self.now) == .known)
        scheduler.ended(reads[0], with: 8)
        scheduler.ended(reads[1], with: 0)
        #expect(scheduler.takeOwnReads().isEmpty)
        #expect(scheduler.watch(group: 0)?.streams == ["b"])
        // 800 of 1,000: one more, which may go beyond.
        _ = scheduler.ended(entry(0, 400))
        let one = scheduler.takeOwnReads()
        #expect(one.map(\.stream) == ["a"] && one.map(\.count) == [1])
        #expect(scheduler.arrived(entry(3, 900), ownedAt: Self.now) == .begin)
        scheduler.ended(one[0], with: 1)
        for number in 1...2 {
            _ = scheduler.ended(entry(number, 400))
            // 900 are left, and the next is taken to be as large.
            #expect(scheduler.takeOwnReads().map(\.count) == (number == 1 ? [] : [1]))
        }
    }

    @Test func `A paused stream is neither read nor taken over nor reported, and is read again afterwards`() {
        var scheduler = Self.scheduler(["a": 4, "b": 4])
        Self.read(&scheduler)
        scheduler.pause(["a"], true)
        #expect(scheduler.watch(group: 0)?.streams == ["b"])
        #expect(scheduler.claimable.map(\.stream) == ["b"])
        let later = Self.now + .seconds(60)
        #expect(scheduler.unansweredStreams(for: .seconds(10), now: later) == ["b"])
        #expect(!scheduler.mustInterrupt(group: 0))
        scheduler.pause(["a"], false)
        #expect(scheduler.mustInterrupt(group: 0))
        scheduler.watchEnded(group: 0, with: [:])
        #expect(scheduler.watch(group: 0)?.streams == ["a", "b"])
        #expect(scheduler.claimable.map(\.stream) == ["a", "b"])
    }

    @Test func `While entries end one after the other, no blocking read is interrupted`() {
        var scheduler = Self.scheduler(["a": 2, "b": 2])
        Self.read(&scheduler, ["a": 1])
        #expect(scheduler.isLingering && scheduler.watch(group: 0)?.streams == ["b"])
        for number in 0..<3 {
            // Each end is followed by a look, which finds the next one.
            _ = scheduler.ended(Self.entry("a", number))
            let read = scheduler.takeOwnReads()
            #expect(read.map(\.stream) == ["a"])
            _ = scheduler.arrived(Self.entry("a", number + 1), ownedAt: Self.now)
            scheduler.ended(read[0], with: 1)
            #expect(scheduler.takeOwnReads().isEmpty && !scheduler.mustInterrupt(group: 0))
        }
        // The last one: nothing of it is in hand, so that only the blocking read can tell of more.
        _ = scheduler.ended(Self.entry("a", 3))
        Self.read(&scheduler)
        #expect(!scheduler.isLingering && scheduler.mustInterrupt(group: 0))
    }

    @Test func `What a blocking read brought to the end of its credit is read by itself when there is some again`() {
        var scheduler = Self.scheduler(["a": 1, "b": 2])
        Self.read(&scheduler)
        #expect(scheduler.watch(group: 0)?.streams == ["a", "b"])
        _ = scheduler.arrived(Self.entry("a", 0), ownedAt: Self.now)
        scheduler.watchEnded(group: 0, with: ["a": 1])
        #expect(scheduler.watch(group: 0)?.streams == ["b"])
        _ = scheduler.ended(Self.entry("a", 0))
        #expect(!scheduler.mustInterrupt(group: 0) && scheduler.takeOwnReads().map(\.stream) == ["a"])
    }

    @Test func `A blocking read that brought all it asked for may have left some`() {
        var scheduler = Self.scheduler(["a": 4, "b": 16])
        Self.read(&scheduler)
        #expect(scheduler.watch(group: 0)?.count == 4)
        scheduler.watchEnded(group: 0, with: ["a": 4, "b": 1])
        #expect(scheduler.takeOwnReads().map(\.stream) == ["a"])
        #expect(scheduler.watch(group: 0)?.streams == ["b"])
    }

    @Test func `A read that failed is made again, and the stream is not taken for empty`() {
        var scheduler = Self.scheduler(["a": 4])
        let read = scheduler.takeOwnReads()[0]
        scheduler.ended(read, with: nil)
        #expect(scheduler.watch(group: 0) == nil)
        #expect(scheduler.takeOwnReads() == [read])
    }

    @Test func `What a take-over brings beyond the room waits for its turn`() {
        var scheduler = Self.scheduler(["a": 2])
        let arrivals = (0..<4).map { scheduler.arrived(Self.entry("a", $0), ownedAt: Self.now) }
        #expect(arrivals == [.begin, .begin, .wait, .wait])
        #expect(scheduler.arrived(Self.entry("a", 1), ownedAt: Self.now) == .known)
        #expect(scheduler.claimable.isEmpty && scheduler.takeOwnReads().isEmpty)
        #expect(scheduler.ended(Self.entry("a", 0))?.id == "2-0")
        #expect(scheduler.ended(Self.entry("a", 1))?.id == "3-0")
        #expect(scheduler.ended(Self.entry("a", 2)) == nil)
        #expect(!scheduler.isQuiet)
        #expect(scheduler.ended(Self.entry("a", 3)) == nil)
        #expect(scheduler.isQuiet)
    }

    @Test(arguments: [1, 5, StreamLimits.waitingInHandMax, StreamLimits.waitingUnitsInHandMax])
    func `Entries that wait for something of their own take no credit, up to a limit`(_ waitingMax: Int) {
        let feed = ShardConsumer.Feed("a", inHandMax: 2, waitingMax: waitingMax, countPerRead: 8)
        var scheduler = FetchScheduler([feed], now: Self.now)
        Self.read(&scheduler, ["a": 2])
        #expect(scheduler.takeOwnReads().isEmpty)
        var number = 0
        while number < waitingMax {
            #expect(scheduler.waits(Self.entry("a", number), true) == nil)
            let reads = scheduler.takeOwnReads()
            #expect(reads.map(\.count) == [1])
            #expect(scheduler.arrived(Self.entry("a", number + 2), ownedAt: Self.now) == .begin)
            for read in reads { scheduler.ended(read, with: 1) }
            number += 1
        }
        #expect(scheduler.waits(Self.entry("a", number), true) == nil)
        #expect(scheduler.takeOwnReads().isEmpty)
        // An entry that no longer waits counts again, and one that has ended does not.
        #expect(scheduler.waits(Self.entry("a", 0), false) == nil)
        #expect(scheduler.ended(Self.entry("a", 1)) == nil && scheduler.takeOwnReads().isEmpty)
        #expect(scheduler.ended(Self.entry("a", 0)) == nil && scheduler.takeOwnReads().map(\.count) == [1])
    }

    @Test func `An entry that begins to wait lets one begin that waited for room`() {
        var scheduler = Self.scheduler(["a": 1])
        #expect(scheduler.arrived(Self.entry("a", 0), ownedAt: Self.now) == .begin)
        #expect(scheduler.arrived(Self.entry("a", 1), ownedAt: Self.now) == .wait)
        #expect(scheduler.waits(Self.entry("a", 0), true)?.id == "1-0")
        #expect(scheduler.waits(Self.entry("a", 0), true) == nil)
        #expect(scheduler.ownedAt(Self.entry("a", 0)) == Self.now && scheduler.ownedAt(Self.entry("a", 9)) == nil)
    }

    @Test func `What others left is taken over although a backlog uses up all credit, and begins before anything new`()
    {
        var scheduler = Self.scheduler(["a": 4])
        Self.read(&scheduler, ["a": 4])
        #expect(scheduler.takeOwnReads().isEmpty)
        #expect(scheduler.claimable.map(\.count) == [2])
        #expect(scheduler.arrived(Self.entry("a", 4), ownedAt: Self.now) == .wait)
        #expect(scheduler.claimable.map(\.count) == [1])
        #expect(scheduler.ended(Self.entry("a", 0))?.id == "4-0")
        #expect(scheduler.takeOwnReads().isEmpty)
        #expect(scheduler.claimable.map(\.count) == [2])
    }

    @Test(arguments: [1, 2, 7])
    func `What comes back again and again leaves half of the room to what is new`(_ inHandMax: Int) {
        var scheduler = Self.scheduler(["a": inHandMax])
        Self.read(&scheduler, ["a": inHandMax])
        var number = inHandMax
        var hand = (0..<inHandMax).map { Self.entry("a", $0) }
        var begun = (new: 0, again: 0)
        for _ in 0..<20 {
            // The beat claims what there is room for, and begins what it may.
            for claim in scheduler.claimable {
                for _ in 0..<claim.count {
                    let entry = StreamEntry(stream: "a", id: "\(number)-0", message: [], deliveries: 2)
                    number += 1
                    guard scheduler.arrived(entry, ownedAt: Self.now) == .begin else { continue }
                    begun.again += 1
                    hand.append(entry)
                }
            }
            // All in hand ends, one after the other, and the backlog brings as much as is read.
            let ending = hand
            hand = []
            for entry in ending {
                if let next = scheduler.ended(entry) {
                    begun.again += 1
                    hand.append(next)
                }
                for read in scheduler.takeOwnReads() {
                    for _ in 0..<read.count {
                        let entry = Self.entry("a", number)
                        number += 1
                        #expect(scheduler.arrived(entry, ownedAt: Self.now) == .begin)
                        begun.new += 1
                        hand.append(entry)
                    }
                    scheduler.ended(read, with: read.count)
                }
            }
        }
        #expect(begun.again >= 10 * max(1, inHandMax / 2), "\(begun)")
        #expect(begun.new >= begun.again, "\(begun)")
    }

    @Test func `A stop gives back what has not begun and reads nothing more`() {
        var scheduler = Self.scheduler(["a": 1, "b": 1])
        Self.read(&scheduler)
        _ = scheduler.watch(group: 0)
        _ = scheduler.arrived(Self.entry("a", 0), ownedAt: Self.now)
        _ = scheduler.arrived(Self.entry("a", 1), ownedAt: Self.now)
        #expect(scheduler.stop().map(\.id) == ["1-0"])
        #expect(scheduler.mustInterrupt(group: 0))
        #expect(Set(scheduler.inHand.map(\.id)) == ["0-0", "1-0"])
        #expect(scheduler.ended(Self.entry("a", 1)) == nil && !scheduler.isQuiet)
        #expect(scheduler.ended(Self.entry("a", 0)) == nil)
        scheduler.watchEnded(group: 0, with: [:])
        #expect(scheduler.isQuiet && scheduler.watch(group: 0) == nil)
        #expect(scheduler.takeOwnReads().isEmpty && scheduler.claimable.isEmpty)
    }

    @Test func `More streams than one read may name are split over several`() {
        var scheduler = FetchScheduler(
            (0..<130).map { ShardConsumer.Feed("s\($0)", inHandMax: 1, countPerRead: 1) },
            now: Self.now
        )
        Self.read(&scheduler)
        #expect(scheduler.groupCount == 3)
        #expect((0..<3).map { scheduler.watch(group: $0)?.streams.count } == [64, 64, 2])
    }

    @Test func `Urgent and foreign streams have blocking reads of their own, as far as their credit goes`() {
        var scheduler = FetchScheduler(
            [
                ShardConsumer.Feed("bulk", inHandMax: 16, countPerRead: 8),
                ShardConsumer.Feed("express", inHandMax: 16, countPerRead: 8, watch: .urgent),
                ShardConsumer.Feed("plan", inHandMax: 2, countPerRead: 1),
                ShardConsumer.Feed("express:shop", inHandMax: 16, countPerRead: 6, watch: .foreign),
                ShardConsumer.Feed("bulk:shop", inHandMax: 16, countPerRead: 8, watch: .foreign),
            ],
            now: Self.now
        )
        Self.read(&scheduler)
        #expect(scheduler.watch(group: 0) == FetchScheduler.Watch(feeds: [1], streams: ["express"], count: 8))
        let foreign = FetchScheduler.Watch(feeds: [3, 4], streams: ["express:shop", "bulk:shop"], count: 6)
        #expect(scheduler.watch(group: 1) == foreign)
        #expect(scheduler.watch(group: 2) == FetchScheduler.Watch(feeds: [0, 2], streams: ["bulk", "plan"], count: 1))
    }

    @Test(arguments: [(16, 4), (100, 2)])
    func `The streams of one blocking read share the bytes that its answer may have`(_ kibibytes: Int, _ count: Int) {
        let streams = (0..<64).map { "s\($0)" }
        var scheduler = FetchScheduler(
            streams.map { ShardConsumer.Feed($0, inHandMax: 64, countPerRead: 64, watch: .foreign) },
            now: Self.now
        )
        let message = Array(repeating: UInt8(0), count: kibibytes * 1_024)
        for read in scheduler.takeOwnReads() {
            let entry = StreamEntry(stream: read.stream, id: "1-0", message: message)
            #expect(scheduler.arrived(entry, ownedAt: Self.now) == .begin)
            scheduler.ended(read, with: 1)
            #expect(scheduler.ended(entry) == nil)
        }
        // Each by itself may bring as much as may be in hand of it.
        let alone = scheduler.takeOwnReads()
        #expect(alone.allSatisfy { $0.count == min(64, StreamLimits.inHandBytesMax / message.count) })
        for read in alone { scheduler.ended(read, with: 0) }
        let watch = scheduler.watch(group: 0)
        #expect(watch?.streams.count == 64 && watch?.count == count)
        // One that may have more is read by itself, however large its entries, or those of another, may be.
        scheduler.watchEnded(group: 0, with: ["s0": count, "s1": count - 1])
        #expect(scheduler.takeOwnReads().map(\.stream) == ["s0"])
    }

    @Test func `A blocking read that found little rests, and its streams are not read by themselves meanwhile`() {
        var scheduler = Self.scheduler(["a": 16, "b": 16])
        Self.read(&scheduler)
        _ = scheduler.watch(group: 0)
        #expect(scheduler.rests(group: 0, with: [:]) == false, "nothing came: the next may be asked for at once")
        _ = scheduler.arrived(Self.entry("a", 0), ownedAt: Self.now)
        #expect(scheduler.rests(group: 0, with: ["a": 1]) == true)
        #expect(scheduler.ended(Self.entry("a", 0)) == nil)
        #expect(scheduler.takeOwnReads().isEmpty && !scheduler.mustInterrupt(group: 0))
        scheduler.watchEnded(group: 0, with: ["a": 1])
        #expect(scheduler.watch(group: 0)?.streams == ["a", "b"])
        #expect(scheduler.rests(group: 0, with: ["a": 8]) == false, "as many as were asked for: there may be more")
        _ = scheduler.stop()
        #expect(scheduler.rests(group: 0, with: ["a": 1]) == false)
    }

    @Test func `Leases are renewed when they have aged, not before`() {
        var scheduler = Self.scheduler(["a": 2])
        _ = scheduler.arrived(Self.entry("a", 0), ownedAt: Self.now)
        _ = scheduler.arrived(Self.entry("a", 1), ownedAt: Self.now + .seconds(2))
        let due = scheduler.due(for: .seconds(2), now: Self.now + .seconds(3))
        #expect(due.map(\.id) == ["0-0"])
        scheduler.renewed(due, now: Self.now + .seconds(3))
        #expect(scheduler.due(for: .seconds(2), now: Self.now + .seconds(3)).isEmpty)
    }

    @Test func `A stream with room that no read answers for is told, until one does`() {
        var scheduler = Self.scheduler(["a": 4, "b": 16])
        let limit = Duration.seconds(10)
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(9)).isEmpty)
        scheduler.recordAnswer(for: ["b"], now: Self.now + .seconds(5))
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(10)) == ["a"])
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(15)) == ["a", "b"])
        scheduler.recordAnswer(for: ["a", "b"], now: Self.now + .seconds(16))
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(17)).isEmpty)
    }

    @Test func `A stream that may not be read, for lack of room, is not told`() {
        var scheduler = Self.scheduler(["a": 1, "b": 16])
        Self.read(&scheduler, ["a": 1])
        let limit = Duration.seconds(10)
        scheduler.recordAnswer(for: ["b"], now: Self.now + .seconds(9))
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(9)).isEmpty)
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(18)).isEmpty)
        // Without credit its time starts anew at every look.
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(27)) == ["b"])
        _ = scheduler.ended(Self.entry("a", 0))
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(36)) == ["b"])
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(37)) == ["a", "b"])
        _ = scheduler.stop()
        #expect(scheduler.unansweredStreams(for: limit, now: Self.now + .seconds(99)).isEmpty)
    }

    @Test func `A stopped scheduler waits for answers of Redis until they are given up, and for work always`() {
        var scheduler = Self.scheduler(["a": 4, "b": 4])
        let reads = scheduler.takeOwnReads()
        _ = scheduler.arrived(Self.entry("a", 0), ownedAt: Self.now)
        _ = scheduler.arrived(Self.entry("a", 1), ownedAt: Self.now)
        scheduler.ended(reads[0], with: 2)
        #expect(scheduler.stop().isEmpty)
        scheduler.handled(Self.entry("a", 0))
        #expect(!scheduler.isQuiet)
        scheduler.giveUpAnswers()
        #expect(!scheduler.isQuiet)
        scheduler.handled(Self.entry("a", 1))
        #expect(scheduler.isQuiet)
        #expect(scheduler.inHand.count == 2)
        // Late, but it came.
        scheduler.ended(reads[1], with: 0)
        #expect(scheduler.isQuiet)
    }

    @Test func `What had not begun at the end only waits for Redis`() {
        var scheduler = Self.scheduler(["a": 1])
        Self.read(&scheduler, ["a": 2])
        #expect(scheduler.stop().count == 1)
        scheduler.giveUpAnswers()
        #expect(!scheduler.isQuiet)
        scheduler.handled(Self.entry("a", 0))
        #expect(scheduler.isQuiet)
    }
}
