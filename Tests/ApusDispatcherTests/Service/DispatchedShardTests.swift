import Testing

@testable import ApusDispatcher

/// Tests how often a shard is asked for due messages.
@Suite struct DispatchedShardTests {
    @Test(
        arguments: [
            (nil, 4), (3_600_000, 4), (401, 4), (400, 4), (399, 3), (250, 2), (100, 1), (99, 0), (1, 0), (0, 0),
        ] as [(Int64?, Int)]
    )
    func `Looks for due messages are left out while none is near, and no more than a few in a row`(
        _ next: Int64?,
        _ skipped: Int,
    ) {
        let found = DispatchedShard.dueLooksSkipped(next: next, interval: 100)
        #expect(found == skipped)
        #expect(found <= DispatchedShard.dueLooksSkippedMax)
        // The look before the message is due comes no later than it would without leaving one out.
        if let next { #expect(Int64(found) * 100 <= next) }
    }
}
