import ApusCore
import Testing

@testable import ApusDispatcher

@Suite struct LRUCacheTests {
    private static let now = UnixMilliseconds(1_750_000_000_000)

    @Test func `An id that is used again after a week does not find the cached entry of the last send`() {
        var cache = LRUCache<String>()
        var now = Self.now
        cache.insert("first", "weekly", now: now)
        // While it is worked on it stays, however long that takes.
        for _ in 0..<100 {
            now = now.advanced(byMilliseconds: SendContextCache.idleMillisecondsMax)
            #expect(cache.value("weekly", now: now) == "first")
        }
        #expect(
            cache.value("weekly", now: now.advanced(byMilliseconds: SendContextCache.idleMillisecondsMax + 1)) == nil
        )
        #expect(cache.count == 0)
        // Nor when the clock was set back.
        cache.insert("second", "weekly", now: now)
        #expect(cache.value("weekly", now: now.advanced(byMilliseconds: -1)) == nil)
    }

    @Test func `An entry that depends on the remaining time is renewed after a while, however often it is used`() {
        var cache = LRUCache<String>()
        cache.insert("first", "campaign", now: Self.now)
        cache.setCost("campaign", 100, ageMillisecondsMax: 60_000)
        for second in stride(from: Int64(0), through: 60, by: 20) {
            #expect(cache.value("campaign", now: Self.now.advanced(byMilliseconds: second * 1_000)) == "first")
        }
        #expect(cache.value("campaign", now: Self.now.advanced(byMilliseconds: 60_001)) == nil)
        #expect(cache.count == 0 && cache.cost == 0)
        // A new one counts from when it was kept.
        let later = Self.now.advanced(byMilliseconds: 60_001)
        cache.insert("second", "campaign", now: later)
        cache.setCost("campaign", 100, ageMillisecondsMax: 60_000)
        #expect(cache.value("campaign", now: later.advanced(byMilliseconds: 30_000)) == "second")
    }

    @Test func `An entry that is too old by its age alone can be taken and put back, and one that was not used cannot`()
        throws
    {
        var cache = LRUCache<String>()
        cache.insert("first", "campaign", now: Self.now)
        cache.setCost("campaign", 100, ageMillisecondsMax: 60_000)
        for second in stride(from: Int64(0), through: 60, by: 20) {
            let now = Self.now.advanced(byMilliseconds: second * 1_000)
            let aged = cache.takeAged("campaign", now: now)?.value
            #expect(aged == nil)
            #expect(cache.value("campaign", now: now) == "first")
        }
        let later = Self.now.advanced(byMilliseconds: 60_001)
        let aged = cache.takeAged("campaign", now: later)
        let entry = try #require(aged)
        #expect(entry.value == "first" && cache.count == 0 && cache.cost == 0)
        cache.restore(entry, "campaign")
        #expect(cache.count == 1 && cache.cost == 100)
        let idle = Self.now.advanced(byMilliseconds: 60_001 + SendContextCache.idleMillisecondsMax)
        let unused = cache.takeAged("campaign", now: idle)?.value
        #expect(unused == nil && cache.count == 1)
        #expect(cache.value("campaign", now: later) == nil && cache.count == 0 && cache.cost == 0)
    }

    @Test func `The cache is limited by entries and by cost`() {
        var cache = LRUCache<Int>(entriesMax: 4, costMax: 1_000)
        for number in 0..<6 {
            cache.insert(number, "\(number)", now: Self.now)
            cache.setCost("\(number)", 100)
        }
        #expect(cache.count == 4 && cache.cost == 400)
        #expect((0..<6).map { cache.value("\($0)", now: Self.now) } == [nil, nil, 2, 3, 4, 5])
        // The least recently used goes first.
        _ = cache.value("2", now: Self.now)
        cache.setCost("5", 800)
        #expect(cache.cost == 1_000 && cache.count == 3)
        #expect(cache.value("3", now: Self.now) == nil)
        // An entry that exceeds the limit by itself is kept alone.
        cache.insert(6, "6", now: Self.now)
        cache.setCost("6", 5_000)
        #expect(cache.count == 1 && cache.cost == 5_000 && cache.value("6", now: Self.now) == 6)
        cache.insert(7, "7", now: Self.now)
        #expect(cache.count == 1 && cache.cost == 0)
        cache.setCost("gone", 100)
        cache.remove("7")
        cache.remove("7")
        #expect(cache.count == 0 && cache.cost == 0)
    }
}
