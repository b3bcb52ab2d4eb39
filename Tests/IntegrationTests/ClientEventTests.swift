import ApusCore
import ApusInstallation
import ApusLoadTest
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

/// What apps report of notifications, counted by feedback.
@Suite(.serialized) struct ClientEventTests {
    @Test func `Each report counts once, however often it is written, and apus watch tells the open rate`() async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(100, topics: { _ in ["news"] })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "news-1")
            #expect(try await fleet.completion(of: "news-1").total(.accepted) == 100)

            let streams = fleet.installation.streams
            let events = devices.enumerated().flatMap { index, device -> [ClientEvent] in
                ClientEvent.Kind.allCases.prefix(index < 25 ? 2 : 1).map { kind in
                    var event = ClientEvent(
                        // Two devices may choose the same id.
                        id: "\(kind)-\(index / 2)",
                        app: Fleet.app,
                        device: device.id,
                        send: "news-1",
                        kind: kind,
                        at: fleet.clock.now(),
                    )
                    event.provider = device.provider
                    return event
                }
            }
            let app = try AppID(Fleet.app)
            for _ in 0..<3 {
                let hasRoom = try await streams.report(events, app: app, send: "news-1")
                #expect(hasRoom)
            }
            let keys = streams.home(app: Fleet.app, "news-1")
            _ = try await fleet.client.send(
                RedisCommand("XADD", .text(keys.events), "*", "m", .bytes([0xff])),
                on: keys.tag
            )
            try await eventually("all events are read", timeout: .seconds(60)) {
                try await fleet.client.send(RedisCommand("XLEN", .text(keys.events)), on: keys.tag).root.integer == 0
            }
            let tally = try await streams.tally(app: Fleet.app, send: "news-1")
            #expect(tally.total(.received) == 100 && tally.total(.opened) == 25 && tally.total(.action) == 0)
            // Even devices are Apple's.
            let opened = tally.counts.filter { $0.kind == .opened }
            #expect(opened.map(\.provider) == [.apns, .fcm] && opened.map(\.count) == [13, 12])
            #expect(tally.openRate(accepted: 100) == 0.25)
            #expect(try await streams.tally(app: "other", send: "news-1").counts == [])

            let watched = try fleet.apus("watch", "news-1", "--app", Fleet.app)
            #expect(watched.code == 0 && watched.json["open_rate"] as? Double == 0.25)
            try await eventually("what is no event is a dead letter", timeout: .seconds(60)) {
                try await fleet.client.send(RedisCommand("XLEN", .text(keys.dead)), on: keys.tag).root.integer == 1
            }
            #expect(try await feedback.metric("apus_feedback_client_events_total") == 375)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
