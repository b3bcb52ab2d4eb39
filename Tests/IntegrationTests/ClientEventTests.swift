import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import NIOPosix
import Testing

/// Tests that feedback counts the events that apps report.
@Suite(.serialized) struct ClientEventTests {
    @Test func `Each report counts once, however often it is written, and apus watch shows the open rate`() async throws
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
                let hasRoom = try await streams.events.report(events, app: app, send: "news-1")
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
            let tally = try await streams.events.counts(app: Fleet.app, send: "news-1")
            #expect(tally.total(.received) == 100 && tally.total(.opened) == 25 && tally.total(.action) == 0)
            // Even devices are Apple's.
            let opened = tally.counts.filter { $0.kind == .opened }
            #expect(opened.map(\.provider) == [.apns, .fcm] && opened.map(\.count) == [13, 12])
            #expect(tally.openRate(accepted: 100) == 0.25)
            #expect(try await streams.events.counts(app: "other", send: "news-1").counts == [])

            let watched = try fleet.apus("watch", "news-1", "--app", Fleet.app)
            #expect(watched.code == 0 && watched.json["open_rate"] as? Double == 0.25)
            try await eventually("what is no event is a dead letter", timeout: .seconds(60)) {
                try await fleet.client.send(RedisCommand("XLEN", .text(keys.dead)), on: keys.tag).root.integer == 1
            }
            #expect(try await feedback.metric("apus_feedback_events_total") == 375)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Each event posted over HTTP counts once, and the API and apus watch show the open rate`() async throws {
        let secret = String(repeating: "an identity provider's secret ", count: 2)
        let file = FileManager.default.temporaryDirectory.appending(path: "apus-identity-\(UUID().uuidString)")
        try Data(secret.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var configuration = LocalClusterConfiguration()
        configuration.identitySecretFile = file.path(percentEncoded: false)
        try await Fleet.with(configuration) { fleet in
            let count = 40
            let devices = try await fleet.register(count, topics: { _ in ["news"] }, user: { "user-\($0)" })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let (registration, port) = try await fleet.startRegistration()
            try await fleet.send(.topic("news"), id: "news-1")
            #expect(try await fleet.completion(of: "news-1").total(.accepted) == UInt64(count))

            let connection = try await HTTPConnection.connect(
                host: "127.0.0.1",
                port: port,
                on: MultiThreadedEventLoopGroup.singleton
            )
            func token(_ user: String, _ secret: String) throws -> String {
                let end = fleet.clock.now().seconds + 3_600
                return try JWS.sign(
                    header: #"{"alg":"HS256"}"#,
                    payload: #"{"sub":"\#(user)","aud":"cluster","exp":\#(end)}"#,
                    with: .sharedSecret(Array(secret.utf8)),
                )
            }
            func ask(
                _ method: String,
                _ path: String,
                _ key: String,
                _ body: String = ""
            ) async throws -> HTTPClientResponse {
                let headers = [("content-type", "application/json"), ("authorization", "Bearer \(key)")]
                let path = "/v1/apps/\(Fleet.app)/\(path)"
                return try await connection.send(
                    HTTPClientRequest(method, path, headers: headers, body: Array(body.utf8))
                )
            }
            for (index, device) in devices.enumerated() {
                let kinds = index < 10 ? ["received", "opened"] : ["received"]
                let events = kinds.map { #"{"id":"\#(index)-\#($0)","send":"news-1","kind":"\#($0)"}"# }
                let body = #"{"events":[\#(events.joined(separator: ","))]}"#
                let (own, path) = (try token("user-\(index)", secret), "devices/\(device.id)/events")
                // The app was not sure that it came through.
                for _ in 0..<2 { #expect(try await ask("POST", path, own, body).status == 202) }
                // Nobody else speaks for it: neither another user nor who does not know the secret.
                #expect(try await ask("POST", path, token("user-\(index + 1)", secret), body).status == 404)
                #expect(try await ask("POST", path, token("user-\(index)", secret + "?"), body).status == 401)
            }
            let keys = fleet.installation.streams.home(app: Fleet.app, "news-1")
            try await eventually("all events are read", timeout: .seconds(60)) {
                try await fleet.client.send(RedisCommand("XLEN", .text(keys.events)), on: keys.tag).root.integer == 0
            }
            #expect(try await feedback.metric("apus_feedback_events_total") == Double(2 * (count + 10)))

            let made = try fleet.apus("key", "create", "--app", Fleet.app, "--role", "publish", "backend")
            let key = try #require(made.json["key"] as? String)
            try await eventually("the key is known", timeout: .seconds(60)) {
                try await ask("GET", "sends/news-1", key).status == 200
            }
            let answer = try await ask("GET", "sends/news-1", key)
            let told = try JSONValue(parsing: answer.body, bytesMax: 1 << 20)
            #expect(told["events"]?["received"]?.int64 == Int64(count) && told["events"]?["opened"]?.int64 == 10)
            #expect(told["open_rate"]?.double == 0.25 && told["accepted"]?.int64 == Int64(count))
            let providers = told["events"]?["by_provider"]?.array ?? []
            let opened = providers.filter { $0["kind"]?.string == "opened" }
            #expect(opened.compactMap { $0["count"]?.int64 } == [5, 5])

            let watched = try fleet.apus("watch", "news-1", "--app", Fleet.app)
            let events = watched.json["events"] as? [String: Any]
            #expect(watched.code == 0 && watched.json["open_rate"] as? Double == 0.25)
            #expect(events?["received"] as? Int == count && events?["opened"] as? Int == 10)
            await connection.close()
            for service in [registration, dispatcher, feedback] { try await service.terminate() }
        }
    }
}
