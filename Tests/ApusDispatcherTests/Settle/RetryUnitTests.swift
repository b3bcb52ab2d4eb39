import ApusAPNs
import ApusCore
import ApusMessages
import ApusProviders
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

@testable import ApusDispatcher

@Suite struct RetryUnitTests {
    private static let due = UnixMilliseconds(1_750_000_010_000)

    /// The retries of a unit whose third recipient is deferred.
    private func retries(
        _ route: RouteNumber,
        lane: Lane = .bulk,
        entry: String,
        sequence: UInt32 = 1,
        _ change: (inout RunUpdate, inout WorkUnit) -> Void = { _, _ in },
    ) throws
        -> [UnitRetry]
    {
        var notification = Notification()
        notification.title = "Hi"
        let now = UnixMilliseconds(1_750_000_000_000)
        let rendered = try APNsRenderer(bundleID: "com.example.app")
            .render(notification, context: RenderContext(send: SendID("s"), publishedAt: now, now: now))
            .map { message throws(Problem) in try PreparedMessage.apns(message, authority: "localhost") }
        let app = try AppID("shop")
        let context = RouteContext(
            route: Route(app: app, provider: .apns, environment: .production),
            number: route,
            RenderedRoute(messages: rendered, tokenKinds: .all),
            retryRules: .apns,
        )
        let send = SendContext(
            send: "s",
            command: SendCommand(app: "shop", target: .topic("news"), notification: notification),
            tag: HashTag("q1"),
            digest: 1,
            expiresAt: nil,
            predicate: .exists,
            routes: [route: context],
            anyProvider: .apns,
        )
        var table = RecipientTable()
        for ordinal in 0..<3 as Range<UInt32> {
            table.append(RecipientTable.Row(partition: 0, ordinal: ordinal, generation: 1), token: [1])
        }
        var unit = WorkUnit(send: "shop/s", route: route, recipients: .references([]))
        unit.lane = lane
        var update = RunUpdate(
            report: RunReport(),
            retries: [(due: Self.due, indices: [2])],
            bitmap: [0b100],
            isFinished: false,
            isComplete: false,
        )
        change(&update, &unit)
        return UnitDriver.retries(
            update,
            unit,
            RunPlan(send: send, context: context, lane: lane, table: table),
            entry: StreamEntry(stream: entry, id: "7-0", message: []),
            sequence: sequence,
        )
    }

    @Test
    func
        `Retries that are due together are separate by stream, route and report, and their bytes begin with their send`()
        throws
    {
        let all = [
            try self.retries(RouteNumber(1), entry: "{q1}work:1:bulk"),
            try self.retries(RouteNumber(1), lane: .express, entry: "{q1}work:1:express"),
            try self.retries(RouteNumber(2), entry: "{q1}work:2:bulk"),
            try self.retries(RouteNumber(1), entry: "{q1}work:1:bulk", sequence: 2),
            // One command that goes straight out on two routes.
            try self.retries(RouteNumber(1), lane: .express, entry: "{q1}in:express"),
            try self.retries(RouteNumber(2), lane: .express, entry: "{q1}in:express"),
        ].joined()
        #expect(all.count == 6 && Set(all.map(\.id)).count == 6)
        #expect(all.allSatisfy { $0.id.hasPrefix("shop/s/") && $0.due == Self.due && $0.unit.attempt == 2 })
        let place = DeviceReference(partition: 0, ordinal: 2, generation: 1)
        #expect(all.allSatisfy { $0.unit.recipients == .references([place]) })
        let again = try self.retries(RouteNumber(1), entry: "{q1}work:1:bulk")
        #expect(again.first?.id == all.first?.id, "the same report files the same retry")
    }

    @Test
    func `D7 Recipients of a refused subroute wait in a unit of their own, with attempts left and badges counted`()
        throws
    {
        for attempt in [1, 4, 12] as [UInt32] {
            let all = try self.retries(RouteNumber(1), entry: "{q1}work:1:bulk") { update, unit in
                unit.attempt = attempt
                unit.firstAttemptAt = UnixMilliseconds(1_750_000_000_000)
                update.subroute = [(due: Self.due, indices: [0, 1])]
            }
            #expect(all.count == 2 && Set(all.map(\.id)).count == 2)
            let waiting = try #require(all.first { $0.unit.recipients.count == 2 })
            // Above 1: badges are not counted again.
            #expect((2...5).contains(waiting.unit.attempt) && waiting.unit.firstAttemptAt == nil)
            #expect(waiting.due == Self.due && !waiting.unit.waitsForThirdPartyAuth)
        }
    }
}
