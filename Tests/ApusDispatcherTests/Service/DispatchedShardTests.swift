import ApusCore
import ApusRedis
import ApusStreams
import Testing

@testable import ApusDispatcher

/// Tests how much of each stream of a shard is in hand, and how often it is asked for due messages.
@Suite struct DispatchedShardTests {
    @Test func `Units of slow sends leave their places to all others, and plans that wait for them are few`() {
        let keys = StreamKeys(tag: Keyspace(queueShards: 1, devicePartitions: 1).shardTags[0])
        let feeds = DispatchedShard.feeds(keys, [RouteNumber(7)], [], DispatcherSettings()) { _ in nil }
        let places = Dictionary(uniqueKeysWithValues: feeds.map { ($0.stream, $0.waitingMax) })
        for lane in Lane.allCases {
            #expect(places[keys.work(RouteNumber(7), lane)] == StreamLimits.waitingUnitsInHandMax)
            #expect(places[keys.mailbox(lane)] == StreamLimits.waitingInHandMax)
        }
        #expect(places[keys.plan(RouteNumber(7))] == StreamLimits.waitingInHandMax)
        #expect(StreamLimits.waitingInHandMax <= 64)
        // Sends that are slowed while they run leave more units than those that began slowly.
        #expect(
            StreamLimits.waitingUnitsInHandMax > StreamLimits.pacedUnitsWaitingMax + 4 * StreamLimits.unitsWaitingMax
        )
    }

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
