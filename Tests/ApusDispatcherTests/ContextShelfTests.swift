import ApusCore
import Testing

@testable import ApusDispatcher

@Suite struct ContextShelfTests {
    private static let now = UnixMilliseconds(1_750_000_000_000)

    @Test func `An id that comes again after a week does not find what was kept of the last send`() {
        var shelf = ContextShelf<String>()
        var now = Self.now
        shelf.keep("first", "weekly", now: now)
        // While it is worked on it stays, however long that takes.
        for _ in 0..<100 {
            now = now.advanced(byMilliseconds: SendBook.idleMillisecondsMax)
            #expect(shelf.use("weekly", now: now) == "first")
        }
        #expect(shelf.use("weekly", now: now.advanced(byMilliseconds: SendBook.idleMillisecondsMax + 1)) == nil)
        #expect(shelf.count == 0)
        // Nor when the clock was set back.
        shelf.keep("second", "weekly", now: now)
        #expect(shelf.use("weekly", now: now.advanced(byMilliseconds: -1)) == nil)
    }

    @Test func `What says how long is left is made anew after a while, however often it is used`() {
        var shelf = ContextShelf<String>()
        shelf.keep("first", "campaign", now: Self.now)
        shelf.weigh("campaign", 100, ageMillisecondsMax: 60_000)
        for second in stride(from: Int64(0), through: 60, by: 20) {
            #expect(shelf.use("campaign", now: Self.now.advanced(byMilliseconds: second * 1_000)) == "first")
        }
        #expect(shelf.use("campaign", now: Self.now.advanced(byMilliseconds: 60_001)) == nil)
        #expect(shelf.count == 0 && shelf.byteCount == 0)
        // A new one counts from when it was kept.
        let later = Self.now.advanced(byMilliseconds: 60_001)
        shelf.keep("second", "campaign", now: later)
        shelf.weigh("campaign", 100, ageMillisecondsMax: 60_000)
        #expect(shelf.use("campaign", now: later.advanced(byMilliseconds: 30_000)) == "second")
    }

    @Test func `The shelf keeps so many, and so many bytes of them`() {
        var shelf = ContextShelf<Int>(pagesMax: 4, bytesMax: 1_000)
        for number in 0..<6 {
            shelf.keep(number, "\(number)", now: Self.now)
            shelf.weigh("\(number)", 100)
        }
        #expect(shelf.count == 4 && shelf.byteCount == 400)
        #expect((0..<6).map { shelf.use("\($0)", now: Self.now) } == [nil, nil, 2, 3, 4, 5])
        // The least recently used goes first.
        _ = shelf.use("2", now: Self.now)
        shelf.weigh("5", 800)
        #expect(shelf.byteCount == 1_000 && shelf.count == 3)
        #expect(shelf.use("3", now: Self.now) == nil)
        // What is beyond the limit by itself is kept alone.
        shelf.keep(6, "6", now: Self.now)
        shelf.weigh("6", 5_000)
        #expect(shelf.count == 1 && shelf.byteCount == 5_000 && shelf.use("6", now: Self.now) == 6)
        shelf.keep(7, "7", now: Self.now)
        #expect(shelf.count == 1 && shelf.byteCount == 0)
        shelf.weigh("gone", 100)
        shelf.drop("7")
        shelf.drop("7")
        #expect(shelf.count == 0 && shelf.byteCount == 0)
    }
}
