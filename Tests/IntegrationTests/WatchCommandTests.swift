import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

/// Tests `apus watch` against services: it says why a send waits, and what became of it.
@Suite(.serialized) struct WatchCommandTests {
    private static func watch(
        _ fleet: Fleet,
        _ send: String,
    ) throws -> (code: Int32, state: String?, obstacles: [String]) {
        let answer = try fleet.apus("watch", send, "--timeout", "1")
        return (answer.code, answer.json["state"] as? String, answer.json["obstacles"] as? [String] ?? [])
    }

    @Test func `A send that waits names its cause: no dispatcher, then a paused route, and an unknown one is no send`()
        async throws
    {
        try await Fleet.with { fleet in
            let feedback = try await fleet.startFeedback()
            let numbers = try await fleet.pauseRoutes()
            let token = String(repeating: "ab", count: 32)
            let registration = DeviceRegistration(device: "d1", provider: .apns, token: token)
            try await fleet.installation.store.load(AppID(Fleet.app), count: 1) { _ in registration }
            try await fleet.send(.everyone([]), id: "s")
            let unread = try Self.watch(fleet, "s")
            #expect(unread.code == 1 && unread.state == "waiting")
            #expect(unread.obstacles.contains { $0.hasPrefix("dispatcher: none has run") }, "\(unread.obstacles)")
            let unknown = try Self.watch(fleet, "no-such-send")
            #expect(unknown.code == 1 && unknown.state == nil)

            let dispatcher = try await fleet.startDispatcher()
            try await eventually("the dispatcher has taken it, and reports itself") {
                let paused = try Self.watch(fleet, "s")
                return paused.state != "waiting" && paused.code == 1
                    && paused.obstacles.contains {
                        $0.hasPrefix("\(Fleet.app)/apns/production: paused by an operator; apus resume --route")
                    } && !paused.obstacles.contains { $0.hasPrefix("dispatcher") }
            }
            let words = ["--app", Fleet.app, "--device", "d1", "--title", "Hi", "--id", "direct"]
            #expect(try fleet.apus(["send"] + words).code == 0)
            try await eventually("a send to one device, which has no plan, is held, and names the cause too") {
                let direct = try Self.watch(fleet, "direct")
                return direct.code == 1 && direct.state != "waiting"
                    && direct.obstacles.contains { $0.hasPrefix("\(Fleet.app)/apns/production: paused by an operator") }
            }
            for number in numbers { try await fleet.installation.streams.routes.control(number, .resume) }
            try await eventually("both are done") {
                try Self.watch(fleet, "s").code == 0 && Self.watch(fleet, "direct").code == 0
            }
            let done = try Self.watch(fleet, "s")
            #expect(done.state == "done" && done.obstacles == [])
            let watched = try fleet.apus("watch", "s").json
            #expect(watched["rate_per_second"] as? Int == 0 && watched["accepted_at_ms"] as? Int ?? 0 > 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
