import ApusCore
import ApusInstallation
import ApusLoadTest
import ApusMessages
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Foundation
import Testing

/// Keys and accounts that change while a dispatcher runs.
@Suite(.serialized) struct ReloadTests {
    /// Answers slow enough that a send is still under way when the keys have changed.
    private static func slow() -> FaultPlan {
        var plan = FaultPlan(seed: 1)
        plan.apns.delayMilliseconds = 1_000
        plan.fcm.delayMilliseconds = 1_000
        return plan
    }

    /// Reloads of a provider that came to that.
    private static func reloads(_ provider: Provider, _ result: String, _ service: ServiceProcess) async throws -> Int {
        let sample = "apus_provider_credential_reloads_total{provider=\"\(provider.name)\",result=\"\(result)\"} "
        let lines = try await service.get("metrics").body.split(separator: "\n")
        guard let line = lines.first(where: { $0.hasPrefix(sample) }) else { return -1 }
        return Int(line.dropFirst(sample.utf8.count)) ?? -1
    }

    /// Replaces texts in the configuration that a service was started with, and asks it to read that again.
    private static func reconfigure(_ service: ServiceProcess, _ changes: [(old: String, new: String)] = []) throws {
        let file = URL(filePath: "\(service.directory)/apus.yaml")
        var text = try String(contentsOf: file, encoding: .utf8)
        for (old, new) in changes {
            #expect(text.contains(old))
            text = text.replacingOccurrences(of: old, with: new)
        }
        try text.write(to: file, atomically: true, encoding: .utf8)
        #expect(kill(service.processID, SIGHUP) == 0)
    }

    private static func keyFile(_ fleet: Fleet) -> String { "\(fleet.folder)/AuthKey_\(SimulatedApp.demo.keyID).p8" }

    @Test func `New keys are taken into use in the middle of a send: nothing is lost, nothing repeated`() async throws {
        try await Fleet.with(faults: Self.slow()) { fleet in
            let devices = try await fleet.register(40_000, topics: { _ in ["news"] })
            let audience = Set(devices.map(\.token))
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "first")
            try await eventually("some are reached") { fleet.accepted(of: "first").count >= 2_000 }

            // The team's second key, and the account's file written anew.
            let old = SimulatedApp.demo
            var rotated = old
            rotated.name = "rotated"
            rotated.keyID = "ROTATED001"
            try fleet.simulator.register([rotated])
            let file = "\(fleet.folder)/AuthKey_\(rotated.keyID).p8"
            let pem = try #require(fleet.simulator.signingKeyPEM(app: "rotated"))
            try pem.write(toFile: file, atomically: true, encoding: .utf8)
            let account = "\(fleet.folder)/\(old.name)-service-account.json"
            try (try String(contentsOfFile: account, encoding: .utf8) + "\n")
                .write(toFile: account, atomically: true, encoding: .utf8)
            let keyID = (old: "\"\(old.keyID)\"", new: "\"\(rotated.keyID)\"")
            try Self.reconfigure(dispatcher, [(Self.keyFile(fleet), file), keyID])
            for provider in [Provider.apns, .fcm] {
                try await eventually("\(provider.name) is sent to with the new one") {
                    try await Self.reloads(provider, "taken", dispatcher) == 1
                }
            }
            #expect(fleet.accepted(of: "first").count < 40_000, "the send was over before the keys changed")
            #expect(try await fleet.completion(of: "first").total(.accepted) == 40_000)
            #expect(Comparison(accepted: fleet.accepted(of: "first"), audience: audience) == .exact)

            // Apple forgets the old key: whoever still used it would be refused.
            var demo = old
            demo.keyID = rotated.keyID
            try fleet.simulator.register([demo])
            fleet.simulator.setFaults(FaultPlan(seed: 1))
            try await fleet.send(.topic("news"), id: "second")
            #expect(try await fleet.completion(of: "second").total(.accepted) == 40_000)
            #expect(Comparison(accepted: fleet.accepted(of: "second"), audience: audience) == .exact)
            #expect(try await dispatcher.metric("apus_dispatcher_retries_total") == 0)
            #expect(try await dispatcher.metric("apus_config_last_reload_successful") == 1)
            let expiry = try await dispatcher.metric("apus_provider_credential_expiry_timestamp_seconds")
            let now = Date().timeIntervalSince1970
            #expect((2 * now...2 * (now + 3_600)).contains(expiry), "both within an hour")
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A bad key keeps the old one and says so`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(200, providers: [.apns], topics: { _ in ["news"] })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let file = Self.keyFile(fleet)
            let good = try String(contentsOfFile: file, encoding: .utf8)
            func expectSending(_ id: String) async throws {
                try await fleet.send(.topic("news"), id: id)
                #expect(try await fleet.completion(of: id).total(.accepted) == 200)
                let audience = Set(devices.map(\.token))
                #expect(Comparison(accepted: fleet.accepted(of: id), audience: audience) == .exact)
            }
            try await expectSending("before")

            try "not a key".write(toFile: file, atomically: true, encoding: .utf8)
            try Self.reconfigure(dispatcher)
            try await eventually("it is unusable") { try await Self.reloads(.apns, "unusable", dispatcher) >= 1 }
            try await eventually("the configuration counts as bad") {
                try await dispatcher.metric("apus_config_last_reload_successful") == 0
            }
            try await expectSending("unusable")

            // A key of the right form that Apple does not know under that name.
            var stranger = SimulatedApp.demo
            stranger.name = "stranger"
            stranger.keyID = "STRANGER01"
            try fleet.simulator.register([stranger])
            try #require(fleet.simulator.signingKeyPEM(app: "stranger"))
                .write(toFile: file, atomically: true, encoding: .utf8)
            try Self.reconfigure(dispatcher)
            try await eventually("it is refused") { try await Self.reloads(.apns, "refused", dispatcher) >= 1 }
            #expect(dispatcher.log.contains("InvalidProviderToken"))
            let checked = try fleet.apus("credentials", "check", "--config", "\(dispatcher.directory)/apus.yaml")
            let rows = try #require(checked.json["routes"] as? [[String: Any]])
            #expect(checked.code == 2 && rows.count == 2)
            let apple = rows.first { $0["route"] as? String == "demo/apns/production" }
            #expect(apple?["verdict"] as? String == "refused")
            #expect((apple?["reason"] as? String)?.contains("InvalidProviderToken") == true)
            #expect(apple?["credential"] as? String == "team APUSTEAM01, key APUSKEY001")
            let google = rows.first { $0["route"] as? String == "demo/fcm/production" }
            #expect(google?["verdict"] as? String == "taken")
            try await expectSending("refused")

            try good.write(toFile: file, atomically: true, encoding: .utf8)
            try Self.reconfigure(dispatcher)
            try await eventually("all is well") {
                try await dispatcher.metric("apus_config_last_reload_successful") == 1
            }
            try await expectSending("after")
            #expect(try await Self.reloads(.apns, "taken", dispatcher) == 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
