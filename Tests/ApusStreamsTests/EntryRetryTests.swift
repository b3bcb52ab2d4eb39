import ApusRedis
import Testing

@testable import ApusStreams

@Suite struct EntryRetryTests {
    private static func entry(deliveries: UInt32) -> StreamEntry {
        StreamEntry(stream: "s", id: "1-1", message: [], deliveries: deliveries)
    }

    private static func pauses(after failure: Disposition, deliveries: UInt32 = 1, count: Int) -> [Duration?] {
        var retry = EntryRetry()
        return (0..<count).map { _ in retry.pause(after: failure, of: Self.entry(deliveries: deliveries)) }
    }

    @Test(arguments: [Disposition.retryNow, .retryLater], [UInt32(1), 4])
    func `An outage lets an entry begin again without end, at most a second later`(
        _ failure: Disposition,
        _ deliveries: UInt32,
    ) {
        let pauses = Self.pauses(after: failure, deliveries: deliveries, count: 10_000)
        let first: [Duration?] = [100, 200, 400, 800, 1_000, 1_000].map { .milliseconds($0) }
        #expect(Array(pauses.prefix(6)) == first)
        #expect(pauses.allSatisfy { $0 != nil && $0! <= .seconds(1) })
    }

    @Test func `An unknown refusal lets an entry begin again a few times in one delivery`() {
        let pauses = Self.pauses(after: .giveBack, count: StreamLimits.refusalsPerDeliveryMax + 2)
        #expect(pauses.firstIndex(of: nil) == StreamLimits.refusalsPerDeliveryMax)
        #expect(pauses.suffix(2) == [nil, nil])
        #expect(pauses.compactMap(\.self).reduce(.zero, +) == .milliseconds(2_500))
    }

    @Test func `An outage between refusals does not make them fewer`() {
        var retry = EntryRetry()
        let entry = Self.entry(deliveries: 2)
        for _ in 0..<StreamLimits.refusalsPerDeliveryMax {
            #expect(retry.pause(after: .giveBack, of: entry) != nil)
            #expect(retry.pause(after: .retryLater, of: entry) != nil)
        }
        #expect(retry.pause(after: .giveBack, of: entry) == nil)
    }

    @Test(arguments: [(Disposition.giveBack, UInt32(3)), (.bury, 1), (.stop, 1)])
    func `A refused poison entry, a burial that failed and a cancelled task wait for the lease`(
        _ failure: Disposition,
        _ deliveries: UInt32,
    ) {
        #expect(Self.pauses(after: failure, deliveries: deliveries, count: 2) == [nil, nil])
    }
}
