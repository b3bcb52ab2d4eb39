import Testing

@testable import ApusStreams

@Suite struct FeedBookTests {
    private static let now = ContinuousClock.now

    private static func book(_ limits: [String: Int], streamsPerReadMax: Int = 64) -> FeedBook {
        let feeds = limits.sorted { $0.key < $1.key }.map {
            ShardConsumer.Feed($0.key, inHandMax: $0.value, countPerRead: 8)
        }
        return FeedBook(feeds, now: Self.now, streamsPerReadMax: streamsPerReadMax)
    }

    /// Reads that found so many entries, which all have begun.
    private static func read(_ book: inout FeedBook, _ found: [String: Int] = [:]) {
        for read in book.takeOwnReads() {
            let count = found[read.stream] ?? 0
            for number in 0..<count { _ = book.arrived(Self.entry(read.stream, number), ownedAt: Self.now) }
            book.ended(read, with: count)
        }
    }

    private static func entry(_ stream: String, _ number: Int) -> StreamEntry {
        StreamEntry(stream: stream, id: "\(number)-0", message: [])
    }

    @Test func `Every stream is read by itself first, and by the blocking read once it is empty`() {
        var book = Self.book(["a": 4, "b": 16])
        #expect(book.watch(group: 0) == nil)
        let reads = book.takeOwnReads()
        #expect(reads.map(\.stream) == ["a", "b"])
        #expect(reads.map(\.count) == [4, 8])
        #expect(book.takeOwnReads().isEmpty)
        for read in reads { book.ended(read, with: 0) }
        #expect(book.takeOwnReads().isEmpty)
        #expect(book.watch(group: 0)?.streams == ["a", "b"])
    }

    @Test func `A feed without credit is neither read nor watched, and is read by itself when it has some again`() {
        var book = Self.book(["a": 4, "b": 16])
        Self.read(&book, ["a": 4])
        #expect(book.takeOwnReads().isEmpty)
        #expect(book.watch(group: 0)?.streams == ["b"])
        _ = book.ended(Self.entry("a", 2))
        let again = book.takeOwnReads()
        #expect(again.map(\.stream) == ["a"] && again.map(\.count) == [1])
        #expect(!book.mustInterrupt(group: 0))
        // Empty by now: after a while the blocking read must wait for it too.
        book.ended(again[0], with: 0)
        #expect(!book.mustInterrupt(group: 0) && book.isLingering)
        book.endLingering()
        #expect(book.mustInterrupt(group: 0) && !book.isLingering)
        book.watchEnded(group: 0, with: [:])
        #expect(!book.mustInterrupt(group: 0))
        #expect(book.watch(group: 0)?.streams == ["a", "b"])
        #expect(book.watch(group: 0)?.count == 1)
    }

    @Test func `A feed whose entries take all the bytes it may have is not read, and no other waits for it`() {
        var book = FeedBook(
            [
                ShardConsumer.Feed("a", inHandMax: 64, bytesInHandMax: 1_000, countPerRead: 8),
                ShardConsumer.Feed("b", inHandMax: 64, bytesInHandMax: 1_000, countPerRead: 8),
            ],
            now: Self.now
        )
        func entry(_ number: Int, _ bytes: Int) -> StreamEntry {
            StreamEntry(stream: "a", id: "\(number)-0", message: Array(repeating: 0, count: bytes))
        }
        let reads = book.takeOwnReads()
        #expect(reads.map(\.count) == [8, 8])
        for number in 0..<3 { #expect(book.arrived(entry(number, 400), ownedAt: Self.now) == .begin) }
        // The same again takes no room twice.
        #expect(book.arrived(entry(2, 400), ownedAt: Self.now) == .known)
        book.ended(reads[0], with: 8)
        book.ended(reads[1], with: 0)
        #expect(book.takeOwnReads().isEmpty)
        #expect(book.watch(group: 0)?.streams == ["b"])
        // 800 of 1,000: one more, which may go beyond.
        _ = book.ended(entry(0, 400))
        let one = book.takeOwnReads()
        #expect(one.map(\.stream) == ["a"] && one.map(\.count) == [1])
        #expect(book.arrived(entry(3, 900), ownedAt: Self.now) == .begin)
        book.ended(one[0], with: 1)
        for number in 1...2 {
            _ = book.ended(entry(number, 400))
            // 900 are left, and the next is taken to be as large.
            #expect(book.takeOwnReads().map(\.count) == (number == 1 ? [] : [1]))
        }
    }

    @Test func `While entries end one after the other, no blocking read is interrupted`() {
        var book = Self.book(["a": 2, "b": 2])
        Self.read(&book, ["a": 1])
        #expect(book.isLingering && book.watch(group: 0)?.streams == ["b"])
        for number in 0..<3 {
            // Each end is followed by a look, which finds the next one.
            _ = book.ended(Self.entry("a", number))
            let read = book.takeOwnReads()
            #expect(read.map(\.stream) == ["a"])
            _ = book.arrived(Self.entry("a", number + 1), ownedAt: Self.now)
            book.ended(read[0], with: 1)
            #expect(book.takeOwnReads().isEmpty && !book.mustInterrupt(group: 0))
        }
        // The last one: nothing of it is in hand, so that only the blocking read can tell of more.
        _ = book.ended(Self.entry("a", 3))
        Self.read(&book)
        #expect(!book.isLingering && book.mustInterrupt(group: 0))
    }

    @Test func `What a blocking read brought to the end of its credit is read by itself when there is some again`() {
        var book = Self.book(["a": 1, "b": 2])
        Self.read(&book)
        #expect(book.watch(group: 0)?.streams == ["a", "b"])
        _ = book.arrived(Self.entry("a", 0), ownedAt: Self.now)
        book.watchEnded(group: 0, with: ["a": 1])
        #expect(book.watch(group: 0)?.streams == ["b"])
        _ = book.ended(Self.entry("a", 0))
        #expect(!book.mustInterrupt(group: 0) && book.takeOwnReads().map(\.stream) == ["a"])
    }

    @Test func `A blocking read that brought all it asked for may have left some`() {
        var book = Self.book(["a": 4, "b": 16])
        Self.read(&book)
        #expect(book.watch(group: 0)?.count == 4)
        book.watchEnded(group: 0, with: ["a": 4, "b": 1])
        #expect(book.takeOwnReads().map(\.stream) == ["a"])
        #expect(book.watch(group: 0)?.streams == ["b"])
    }

    @Test func `A read that failed is made again, and the stream is not taken for empty`() {
        var book = Self.book(["a": 4])
        let read = book.takeOwnReads()[0]
        book.ended(read, with: nil)
        #expect(book.watch(group: 0) == nil)
        #expect(book.takeOwnReads() == [read])
    }

    @Test func `What a take-over brings beyond the room waits for its turn`() {
        var book = Self.book(["a": 2])
        let arrivals = (0..<4).map { book.arrived(Self.entry("a", $0), ownedAt: Self.now) }
        #expect(arrivals == [.begin, .begin, .wait, .wait])
        #expect(book.arrived(Self.entry("a", 1), ownedAt: Self.now) == .known)
        #expect(book.claimable.isEmpty && book.takeOwnReads().isEmpty)
        #expect(book.ended(Self.entry("a", 0))?.id == "2-0")
        #expect(book.ended(Self.entry("a", 1))?.id == "3-0")
        #expect(book.ended(Self.entry("a", 2)) == nil)
        #expect(!book.isQuiet)
        #expect(book.ended(Self.entry("a", 3)) == nil)
        #expect(book.isQuiet)
    }

    @Test func `Entries that wait for something of their own take no credit, up to a limit`() {
        var book = Self.book(["a": 2])
        Self.read(&book, ["a": 2])
        #expect(book.takeOwnReads().isEmpty)
        var number = 0
        while number < StreamLimits.waitingInHandMax {
            #expect(book.waits(Self.entry("a", number), true) == nil)
            let reads = book.takeOwnReads()
            #expect(reads.map(\.count) == [1])
            #expect(book.arrived(Self.entry("a", number + 2), ownedAt: Self.now) == .begin)
            for read in reads { book.ended(read, with: 1) }
            number += 1
        }
        #expect(book.waits(Self.entry("a", number), true) == nil)
        #expect(book.takeOwnReads().isEmpty)
        // What no longer waits counts again, and what has ended does not.
        #expect(book.waits(Self.entry("a", 0), false) == nil)
        #expect(book.ended(Self.entry("a", 1)) == nil && book.takeOwnReads().isEmpty)
        #expect(book.ended(Self.entry("a", 0)) == nil && book.takeOwnReads().map(\.count) == [1])
    }

    @Test func `An entry that begins to wait lets one begin that waited for room`() {
        var book = Self.book(["a": 1])
        #expect(book.arrived(Self.entry("a", 0), ownedAt: Self.now) == .begin)
        #expect(book.arrived(Self.entry("a", 1), ownedAt: Self.now) == .wait)
        #expect(book.waits(Self.entry("a", 0), true)?.id == "1-0")
        #expect(book.waits(Self.entry("a", 0), true) == nil)
        #expect(book.ownedAt(Self.entry("a", 0)) == Self.now && book.ownedAt(Self.entry("a", 9)) == nil)
    }

    @Test func `What others left is taken over although a backlog uses up all credit, and begins before anything new`()
    {
        var book = Self.book(["a": 2])
        Self.read(&book, ["a": 2])
        #expect(book.takeOwnReads().isEmpty)
        #expect(book.claimable.map(\.count) == [2])
        #expect(book.arrived(Self.entry("a", 2), ownedAt: Self.now) == .wait)
        #expect(book.claimable.map(\.count) == [1])
        #expect(book.ended(Self.entry("a", 0))?.id == "2-0")
        #expect(book.takeOwnReads().isEmpty)
        #expect(book.claimable.map(\.count) == [2])
    }

    @Test func `A stop gives back what has not begun and reads nothing more`() {
        var book = Self.book(["a": 1, "b": 1])
        Self.read(&book)
        _ = book.watch(group: 0)
        _ = book.arrived(Self.entry("a", 0), ownedAt: Self.now)
        _ = book.arrived(Self.entry("a", 1), ownedAt: Self.now)
        #expect(book.stop().map(\.id) == ["1-0"])
        #expect(book.mustInterrupt(group: 0))
        #expect(Set(book.inHand.map(\.id)) == ["0-0", "1-0"])
        #expect(book.ended(Self.entry("a", 1)) == nil && !book.isQuiet)
        #expect(book.ended(Self.entry("a", 0)) == nil)
        book.watchEnded(group: 0, with: [:])
        #expect(book.isQuiet && book.watch(group: 0) == nil && book.takeOwnReads().isEmpty && book.claimable.isEmpty)
    }

    @Test func `More streams than one read may name are split over several`() {
        var book = FeedBook(
            (0..<130).map { ShardConsumer.Feed("s\($0)", inHandMax: 1, countPerRead: 1) },
            now: Self.now
        )
        Self.read(&book)
        #expect(book.groupCount == 3)
        #expect((0..<3).map { book.watch(group: $0)?.streams.count } == [64, 64, 2])
    }

    @Test func `A stream that is watched alone has a blocking read of its own, as far as its credit goes`() {
        var book = FeedBook(
            [
                ShardConsumer.Feed("bulk", inHandMax: 16, countPerRead: 8),
                ShardConsumer.Feed("express", inHandMax: 16, countPerRead: 8, isWatchedAlone: true),
                ShardConsumer.Feed("plan", inHandMax: 2, countPerRead: 1),
            ],
            now: Self.now
        )
        Self.read(&book)
        #expect(book.watch(group: 0) == FeedBook.Watch(feeds: [1], streams: ["express"], count: 8))
        #expect(book.watch(group: 1) == FeedBook.Watch(feeds: [0, 2], streams: ["bulk", "plan"], count: 1))
    }

    @Test func `A blocking read that found little rests, and its streams are not read by themselves meanwhile`() {
        var book = Self.book(["a": 16, "b": 16])
        Self.read(&book)
        _ = book.watch(group: 0)
        #expect(book.rests(group: 0, with: [:]) == false, "nothing came: the next may be asked for at once")
        _ = book.arrived(Self.entry("a", 0), ownedAt: Self.now)
        #expect(book.rests(group: 0, with: ["a": 1]) == true)
        #expect(book.ended(Self.entry("a", 0)) == nil)
        #expect(book.takeOwnReads().isEmpty && !book.mustInterrupt(group: 0))
        book.watchEnded(group: 0, with: ["a": 1])
        #expect(book.watch(group: 0)?.streams == ["a", "b"])
        #expect(book.rests(group: 0, with: ["a": 8]) == false, "as many as were asked for: there may be more")
        _ = book.stop()
        #expect(book.rests(group: 0, with: ["a": 1]) == false)
    }

    @Test func `Leases are renewed when they have aged, not before`() {
        var book = Self.book(["a": 2])
        _ = book.arrived(Self.entry("a", 0), ownedAt: Self.now)
        _ = book.arrived(Self.entry("a", 1), ownedAt: Self.now + .seconds(2))
        let due = book.due(for: .seconds(2), now: Self.now + .seconds(3))
        #expect(due.map(\.id) == ["0-0"])
        book.renewed(due, now: Self.now + .seconds(3))
        #expect(book.due(for: .seconds(2), now: Self.now + .seconds(3)).isEmpty)
    }

    @Test func `A stream with room that no read answers for is told, until one does`() {
        var book = Self.book(["a": 4, "b": 16])
        let limit = Duration.seconds(10)
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(9)).isEmpty)
        book.recordAnswer(for: ["b"], now: Self.now + .seconds(5))
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(10)) == ["a"])
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(15)) == ["a", "b"])
        book.recordAnswer(for: ["a", "b"], now: Self.now + .seconds(16))
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(17)).isEmpty)
    }

    @Test func `A stream that may not be read, for lack of room, is not told`() {
        var book = Self.book(["a": 1, "b": 16])
        Self.read(&book, ["a": 1])
        let limit = Duration.seconds(10)
        book.recordAnswer(for: ["b"], now: Self.now + .seconds(9))
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(9)).isEmpty)
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(18)).isEmpty)
        // Without credit its time starts anew at every look.
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(27)) == ["b"])
        _ = book.ended(Self.entry("a", 0))
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(36)) == ["b"])
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(37)) == ["a", "b"])
        _ = book.stop()
        #expect(book.unansweredStreams(for: limit, now: Self.now + .seconds(99)).isEmpty)
    }

    @Test func `A stopped book waits for answers of Redis until they are given up, and for work always`() {
        var book = Self.book(["a": 4, "b": 4])
        let reads = book.takeOwnReads()
        _ = book.arrived(Self.entry("a", 0), ownedAt: Self.now)
        _ = book.arrived(Self.entry("a", 1), ownedAt: Self.now)
        book.ended(reads[0], with: 2)
        #expect(book.stop().isEmpty)
        book.handled(Self.entry("a", 0))
        #expect(!book.isQuiet)
        book.giveUpAnswers()
        #expect(!book.isQuiet)
        book.handled(Self.entry("a", 1))
        #expect(book.isQuiet)
        #expect(book.inHand.count == 2)
        // Late, but it came.
        book.ended(reads[1], with: 0)
        #expect(book.isQuiet)
    }

    @Test func `What had not begun at the end only waits for Redis`() {
        var book = Self.book(["a": 1])
        Self.read(&book, ["a": 2])
        #expect(book.stop().count == 1)
        book.giveUpAnswers()
        #expect(!book.isQuiet)
        book.handled(Self.entry("a", 0))
        #expect(book.isQuiet)
    }
}
