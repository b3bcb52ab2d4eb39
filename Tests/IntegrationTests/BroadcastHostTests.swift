import ApusCore
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStreams
import ApusTestKit
import Foundation
import Testing

/// An app whose broadcasts go to an address of their own: two simulated Apples, one for devices and one for channels.
@Suite(.serialized) struct BroadcastHostTests {
    private struct Setup {
        let fleet: Fleet
        /// Takes the broadcasts.
        let broadcaster: Simulator
        let dispatcher: ServiceProcess
        let channel: String

        init(_ fleet: Fleet, _ broadcaster: Simulator) async throws {
            self.fleet = fleet
            self.broadcaster = broadcaster
            let port = try #require(broadcaster.addresses.apnsPort)
            self.dispatcher = try await fleet.start("dispatcher", broadcastPort: port)
            // The channel is made where it is sent to.
            let text = try String(contentsOfFile: "\(self.dispatcher.directory)/apus.yaml", encoding: .utf8)
            let usual = "channels_url: https://127.0.0.1:\(fleet.simulator.addresses.apnsPort ?? 0)"
            #expect(text.contains(usual))
            let file = "\(fleet.folder)/broadcaster.yaml"
            try text.replacing(usual, with: "channels_url: https://127.0.0.1:\(port)")
                .write(toFile: file, atomically: true, encoding: .utf8)
            let made = try fleet.apus("channel", "create", "--config", file, "--app", Fleet.app)
            self.channel = try #require(made.json["channel"] as? String)
        }

        func publish(_ id: String) async throws {
            let target = Target.apnsChannel(id: self.channel, environment: .production, storesLatest: false)
            try await self.fleet.send(target, id: id) { command in
                var activity = Notification.LiveActivity(event: .update)
                activity.contentStateJSON = "{}"
                command.notification = Notification()
                command.notification.kind = .liveActivity
                command.notification.liveActivity = activity
            }
        }

        func expectAccepted(_ id: String) async throws {
            try await eventually("\(id) has its receipt") {
                try await self.fleet.receipts(of: id).contains { $0.kind == .final }
            }
            let receipt = try await self.fleet.receipts(of: id).first { $0.kind == .final }
            #expect(receipt?.planned == 1 && receipt?.counts.map(\.outcome) == [.accepted], "\(id)")
        }

        /// Returns the requests that each of the two hosts has had: for devices, for channels.
        var requests: [Int] {
            [self.fleet.simulator.ledger.snapshot.count, self.broadcaster.ledger.snapshot.count]
        }
    }

    private static func with(_ body: (Setup) async throws -> Void) async throws {
        try await Fleet.with { fleet in
            var configuration = SimulatorConfiguration()
            configuration.fcmPort = nil
            configuration.controlPort = nil
            let broadcaster = try await Simulator.start(configuration, beside: fleet.simulator)
            do {
                try await body(try await Setup(fleet, broadcaster))
            } catch {
                await broadcaster.stop()
                throw error
            }
            await broadcaster.stop()
        }
    }

    @Test func `Device sends go to one host and channel sends to the other, with a new credential too`() async throws {
        try await Self.with { setup in
            let fleet = setup.fleet
            let devices = try await fleet.register(40, providers: [.apns], topics: { _ in ["news"] })
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "devices")
            #expect(try await fleet.completion(of: "devices").total(.accepted) == 40)
            #expect(setup.requests == [40, 0])
            for number in 1...3 { try await setup.publish("broadcast-\(number)") }
            for number in 1...3 { try await setup.expectAccepted("broadcast-\(number)") }
            #expect(setup.requests == [40, 3])

            let key = "\(fleet.folder)/AuthKey_\(SimulatedApp.demo.keyID).p8"
            try (try String(contentsOfFile: key, encoding: .utf8) + "\n")
                .write(toFile: key, atomically: true, encoding: .utf8)
            setup.dispatcher.reload()
            try await eventually("the key is read again") {
                let line = "apus_provider_credential_reloads_total{provider=\"apns\",result=\"taken\"} 1"
                return try await setup.dispatcher.get("metrics").body.contains(line)
            }
            // Asking Apple about a credential is a request of its own.
            let probed = setup.requests
            #expect(probed[1] == 3, "it is asked at one host only")
            try await fleet.send(.devices(devices.prefix(7).map(\.id)), id: "device", lane: .express)
            try await setup.publish("after")
            try await setup.expectAccepted("after")
            try await eventually("the devices have theirs") { fleet.accepted(of: "device").count == 7 }
            #expect(setup.requests == [probed[0] + 7, 4])

            // Requests to channels that are on the wire are waited for when the dispatcher stops.
            var slow = FaultPlan(seed: 1)
            slow.apns.delayMilliseconds = 1_500
            setup.broadcaster.setFaults(slow)
            try await setup.publish("last")
            try await eventually("it is on the wire") { setup.requests[1] == 5 }
            try await setup.dispatcher.terminate()
            try await setup.expectAccepted("last")
            #expect(setup.requests[1] == 5)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await feedback.terminate()
        }
    }
}
