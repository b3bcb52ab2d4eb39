import ApusRedis
import Testing

@testable import ApusStreams

@Suite struct EntryRetryTests {
    private static func pauses(
        after failure: Disposition,
        deliveries: UInt32 = 1,
        count: Int
    ) -> [Duration?] {
        let entry = StreamEntry(stream: "s", id: "1-1", message: [], deliveries: deliveries)
        var retry = EntryRetry()
        return (0..<count).map { _ in retry.pause(after: failure, of: entry) }
    }

    @Test(arguments: [(Disposition.retryNow, UInt32(1)), (.retryLater, 1), (.retryLater, 4)])
    func `After an outage an entry begins again soon, and leaves its place to others if it fails once more`(
        _ failure: Disposition,
        _ deliveries: UInt32,
    ) {
        let pauses = Self.pauses(after: failure, deliveries: deliveries, count: 4)
        #expect(pauses == [.milliseconds(100), .milliseconds(200), nil, nil])
    }

    @Test func `After an unknown refusal an entry begins again for two and a half seconds`() {
        let pauses = Self.pauses(after: .giveBack, deliveries: 2, count: StreamLimits.refusalsPerDeliveryMax + 2)
        let expected: [Duration?] = [100, 200, 400, 800, 1_000].map { .milliseconds($0) } + [nil, nil]
        #expect(pauses == expected)
    }

    @Test(arguments: [(Disposition.giveBack, UInt32(3)), (.bury, 1), (.stop, 1)])
    func `A refused poison entry, a burial that failed and a cancelled task wait for the lease`(
        _ failure: Disposition,
        _ deliveries: UInt32,
    ) {
        #expect(Self.pauses(after: failure, deliveries: deliveries, count: 2) == [nil, nil])
    }
}
