import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Foundation
import Testing

/// Apps that show Apple a client certificate: services and the operator's program, with a simulated Apple.
@Suite(.serialized) struct CertificateTests {
    private static let bundleID = SimulatedApp.demo.bundleID ?? ""

    /// A certificate for those topics, as a file.
    private static func write(_ fleet: Fleet, _ topics: [String], _ name: String = "certificate") throws -> String {
        let file = "\(fleet.folder)/\(name).pem"
        try fleet.simulator.clientCertificatePEM(topics: topics).write(toFile: file, atomically: true, encoding: .utf8)
        return file
    }

    /// The configuration of a dispatcher that has been started with a certificate and has ended.
    private static func configuration(_ fleet: Fleet, _ certificate: String) async throws -> String {
        let dispatcher = try await fleet.start("dispatcher", certificate: certificate)
        try await dispatcher.terminate()
        return "\(dispatcher.directory)/apus.yaml"
    }

    private static func verdict(_ fleet: Fleet, _ file: String) throws -> String? {
        let checked = try fleet.apus("credentials", "check", "--config", file)
        let routes = checked.json["routes"] as? [[String: Any]]
        return routes?.first { $0["route"] as? String == "demo/apns/production" }?["verdict"] as? String
    }

    @Test func `A certificate for calls alone sends calls, and the rest is refused with the reason`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(
                300,
                providers: [.apns],
                topics: { _ in ["news"] },
                tokenKind: .voip,
            )
            let certificate = try Self.write(fleet, ["\(Self.bundleID).voip"])
            let dispatcher = try await fleet.start("dispatcher", certificate: certificate)
            let feedback = try await fleet.startFeedback()
            #expect(try Self.verdict(fleet, "\(dispatcher.directory)/apus.yaml") == "taken")
            try await fleet.send(.topic("news"), id: "call") { $0.notification.kind = .voip }
            #expect(try await fleet.completion(of: "call").total(.accepted) == 300)
            let audience = Set(devices.map(\.token))
            #expect(Comparison(accepted: fleet.accepted(of: "call"), audience: audience) == .exact)
            try await fleet.send(.topic("news"), id: "alert")
            try await eventually("it is refused") { try await !fleet.receipts(of: "alert").isEmpty }
            let problem = try await fleet.receipts(of: "alert").first?.problem
            #expect(problem?.code == "topic_not_served" && problem?.detail.contains(".voip") == true)

            // Another certificate for calls takes its place: it is asked about calls, too.
            _ = try Self.write(fleet, ["\(Self.bundleID).voip"])
            dispatcher.reload()
            try await eventually("it is in use", timeout: .seconds(60)) {
                let line = "apus_provider_credential_reloads_total{provider=\"apns\",result=\"taken\"} 1"
                return try await dispatcher.get("metrics").body.contains(line)
            }
            try await fleet.send(.topic("news"), id: "again") { $0.notification.kind = .voip }
            #expect(try await fleet.completion(of: "again").total(.accepted) == 300)
            #expect(try await fleet.deleted(devices) == 0)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Channels are managed with a certificate as with a key`() async throws {
        try await Fleet.with { fleet in
            let file = try await Self.configuration(fleet, try Self.write(fleet, [Self.bundleID]))
            let place = ["--config", file, "--app", Fleet.app]
            let made = try fleet.apus(["channel", "create"] + place)
            let id = try #require(made.json["channel"] as? String)
            #expect(fleet.simulator.broadcastChannels(bundleID: Self.bundleID) == [id])
            let listed = try fleet.apus(["channel", "list"] + place)
            #expect(listed.code == 0 && listed.json["channels"] as? [String] == [id])
            let deleted = try fleet.apus(["channel", "delete", id] + place)
            #expect(deleted.code == 0 && fleet.simulator.broadcastChannels(bundleID: Self.bundleID).isEmpty)

            let calls = try await Self.configuration(fleet, try Self.write(fleet, ["\(Self.bundleID).voip"], "calls"))
            #expect(try fleet.apus(["channel", "list", "--config", calls, "--app", Fleet.app]).code == 1)
        }
    }

    @Test func `A dry run checks the topics of a certificate, and reports when it cannot`() async throws {
        try await Fleet.with { fleet in
            _ = try await fleet.register(10, providers: [.apns], topics: { _ in ["news"] })
            func tryOut(_ file: String) throws -> (code: Int32, lints: [String]) {
                let order = ["send", "--dry-run", "--config", file, "--app", Fleet.app, "--topic", "news"]
                let run = try fleet.apus(order + ["--title", "Swifts"])
                let lints = (run.json["lints"] as? [[String: Any]])?.compactMap { $0["code"] as? String }
                return (run.code, lints ?? [])
            }
            let certificate = try Self.write(fleet, [Self.bundleID])
            let good = try await Self.configuration(fleet, certificate)
            #expect(try tryOut(good) == (0, []))
            let calls = try await Self.configuration(fleet, try Self.write(fleet, ["\(Self.bundleID).voip"], "calls"))
            #expect(try tryOut(calls).code == 1, "a real one would be refused")
            try "not a certificate".write(toFile: certificate, atomically: true, encoding: .utf8)
            #expect(try tryOut(good) == (0, ["certificate_unread"]))
        }
    }
}
