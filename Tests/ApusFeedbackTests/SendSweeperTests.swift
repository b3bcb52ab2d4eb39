import ApusCore
import ApusInstallation
import ApusMessages
import ApusMetrics
import ApusRedis
import ApusStreams
import ApusTestKit
import Logging
import Testing

@testable import ApusFeedback

/// A send whose last outcomes never came.
@Suite struct SendSweeperTests {
    @Test func `A send whose last outcomes never came is ended, and its publisher gets a receipt`() async throws {
        try await HandlerFixture.with { fixture in
            let (keys, streams) = (fixture.handler.keys, fixture.installation.streams)
            _ = try await streams.routes.number(of: try #require(Route("shop/apns/production")))
            try await fixture.makeLedger(of: "s", planned: 10)
            _ = try await fixture.client.send(RedisCommand("SADD", .text(keys.openSends), "shop/s"), on: keys.tag)
            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 7)]
            try await fixture.apply(batch)

            var catalogue = MetricCatalogue()
            let metrics = FeedbackMetrics(&catalogue)
            let sweeper = SendSweeper(
                streams: streams,
                silenceMilliseconds: 0,
                metrics: metrics,
                shared: MetricRegistry(catalogue).shared,
                clock: SystemClock(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            // A send that cannot be read keeps no other from being swept.
            for send in ["shop/broken", "shop/s0", "shop/zzz"] as [SendKey] {
                _ = try await fixture.client.send(RedisCommand("SET", .text(keys.send(send)), "no hash"), on: keys.tag)
                _ = try await fixture.client.send(
                    RedisCommand("SADD", .text(keys.openSends), .text(send.description)),
                    on: keys.tag
                )
            }
            #expect(try await sweeper.sweep(keys.tag) == 1)
            #expect(try await sweeper.sweep(keys.tag) == 0)
            try await fixture.applyNext()
            let final = try await fixture.receipts().filter { $0.kind == .final }
            #expect(final.map(\.id) == ["final:shop/s"])
            let counts = final.first?.counts ?? []
            #expect(final.first?.planned == 10 && counts.reduce(0) { $0 + $1.count } == 10)
            #expect(counts.filter { $0.reason == .unknown }.map(\.count) == [3])
            #expect(try await sweeper.sweep(keys.tag) == 0)
        }
    }
}
