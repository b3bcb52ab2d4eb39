import ApusCore
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStreams
import ApusTLS
import ApusTestKit
import Foundation
import Testing

/// Providers that nobody can connect to, through the eyes of an operator.
@Suite(.serialized, .timeLimit(.minutes(5))) struct UnreachableProviderTests {
    /// The causes for which push services cannot be reached, each with the label of its metric and its words.
    enum BrowserFault: String, CaseIterable, Sendable {
        case refused
        case unknownHost
        case otherAuthority
        case expiredCertificate
        case wrongName
        case noProtocol

        var outcome: String {
            switch self {
            case .refused: "tcp"
            case .unknownHost: "dns"
            case .otherAuthority, .expiredCertificate, .wrongName: "tls"
            case .noProtocol: "alpn"
            }
        }

        var words: [String] {
            switch self {
            case .refused: ["cannot connect to ", " by way of 127.0.0.1:", ": Connection refused"]
            case .unknownHost: ["the name of ", " by way of push.invalid:443 is not found"]
            case .otherAuthority, .expiredCertificate, .wrongName: ["the certificate of ", " is refused: "]
            case .noProtocol: [" agrees to no protocol that we offer"]
            }
        }

        func change(_ simulator: inout SimulatorConfiguration) {
            switch self {
            case .expiredCertificate, .wrongName:
                var script = SimulatorScript()
                script.certificates[.webpush] = self == .wrongName ? .wrongName : .expired
                simulator.script = script
            case .noProtocol: simulator.protocols = ["of-somebody-else"]
            case .refused, .unknownHost, .otherAuthority: break
            }
        }
    }

    @Test(arguments: BrowserFault.allCases)
    func `Lag and metrics say why push services cannot be reached, phones go on, and no browser is given up`(
        fault: BrowserFault
    ) async throws {
        var configuration = LocalClusterConfiguration()
        configuration.hasWebPush = true
        fault.change(&configuration.simulator)
        // Google's listener speaks the same protocols as that of the push services.
        let phone = Provider.apns
        try await Fleet.with(configuration) { fleet in
            let devices = try await fleet.register(12, providers: [phone, .webpush], topics: { _ in ["news"] })
            if fault == .refused { try await fleet.simulator.setListening(false, at: .webpush) }
            var settings: ServiceSettingsText = [:]
            if fault == .unknownHost { settings["connect_url"] = "https://push.invalid" }
            if fault == .otherAuthority {
                let authority = try CertificateAuthority(
                    name: "Somebody else",
                    validity: CertificateValidity(from: fleet.clock.now()),
                )
                let file = "\(fleet.folder)/other-ca.pem"
                try authority.certificatePEM.write(toFile: file, atomically: true, encoding: .utf8)
                settings["ca_file"] = file
            }
            let dispatcher = try await fleet.start("dispatcher", webPushSettings: settings)
            _ = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "waiting")
            func detail() throws -> String? {
                let routes = try fleet.apus("lag").json["routes"] as? [[String: Any]]
                let row = routes?.first { $0["route"] as? String == "\(Fleet.app)/webpush/production" }
                return row?["connection_fault"] as? String
            }
            try await eventually("the route says why", timeout: .seconds(60)) { try detail() != nil }
            let said = try #require(try detail())
            #expect(fault.words.allSatisfy { said.contains($0) }, "\(said)")
            #expect(SimulatedBrowser.Service.allCases.contains { said.contains($0.rawValue) }, "\(said)")
            let attempts = "apus_provider_connection_attempts_total"
            let labels = [#"provider="webpush""#, "outcome=\"\(fault.outcome)\""]
            #expect(try await dispatcher.metric(attempts, labels[0], labels[1]) >= 1)
            #expect(try await dispatcher.metric(attempts, labels[0], #"outcome="ok""#) == 0)
            try await eventually("the services count as unreachable", timeout: .seconds(60)) {
                try await dispatcher.metric("apus_provider_origins", labels[0], #"state="unreachable""#) >= 1
            }
            try await eventually("the phones have theirs") {
                fleet.accepted(of: "waiting").count == devices.count { $0.provider == phone }
            }
            #expect(try await fleet.deleted(devices) == 0)

            // With what was wrong put right, it all arrives.
            switch fault {
            case .refused: try await fleet.simulator.setListening(true, at: .webpush)
            case .unknownHost, .otherAuthority:
                try await dispatcher.terminate()
                _ = try await fleet.startDispatcher()
            case .expiredCertificate, .wrongName, .noProtocol:
                try await fleet.terminate()
                return
            }
            let ledger = try await fleet.completion(of: "waiting") { try await fleet.makeRetriesDueSlowly() }
            #expect(ledger.total(.accepted) == 12)
            try await eventually("the route has no fault", timeout: .seconds(60)) { try detail() == nil }
            #expect(try await fleet.deleted(devices) == 0)
            try await fleet.terminate()
        }
    }

    @Test func `Lag, doctor and watch name a provider that fails, with its answer, until it works again`() async throws
    {
        try await Fleet.with(isAppendOnly: true) { fleet in
            _ = try await fleet.register(200, providers: [.apns], topics: { _ in ["news"] })
            var plan = FaultPlan()
            plan.apns.internalError = 1
            fleet.simulator.setFaults(plan)
            _ = try await fleet.startDispatcher()
            _ = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "waiting")
            let route = "\(Fleet.app)/apns/production"
            func failure() throws -> String? {
                let routes = try fleet.apus("lag").json["routes"] as? [[String: Any]]
                return routes?.first { $0["route"] as? String == route }?["provider_failure"] as? String
            }
            try await eventually("lag names it", timeout: .seconds(60)) { try failure() != nil }
            #expect(try failure() == "InternalServerError")
            let doctor = try OperatorProgram.run(["doctor", "--offline", "--redis", fleet.redisURL])
            let line = doctor.lines.first { $0.contains("fails with InternalServerError, for ") }
            #expect(
                doctor.code == 1 && line?.hasPrefix("fail") == true && line?.contains(route) == true,
                "\(doctor.lines)"
            )

            fleet.simulator.setFaults(FaultPlan())
            let ledger = try await fleet.completion(of: "waiting") { try await fleet.makeRetriesDueSlowly() }
            #expect(ledger.total(.accepted) == 200)
            try await eventually("the provider works", timeout: .seconds(120)) { try failure() == nil }
            try await fleet.terminate()
        }
    }

    @Test func `A route whose host nobody can connect to fails, while another environment's host is connected to`()
        async throws
    {
        try await Fleet.withSandbox { fleet, sandbox in
            try await fleet.simulator.setListening(false, at: .apns)
            let dispatcher = try await fleet.start("dispatcher", sandboxPort: sandbox.addresses.apnsPort)
            let feedback = try await fleet.startFeedback()
            let (route, other) = ("\(Fleet.app)/apns/production", "\(Fleet.app)/apns/sandbox")
            func failing(_ route: String) async throws -> Double {
                try await feedback.metric("apus_feedback_failing_routes", "route=\"\(route)\"")
            }
            func failure(of route: String) throws -> String? {
                let routes = try fleet.apus("lag").json["routes"] as? [[String: Any]]
                return routes?.first { $0["route"] as? String == route }?["provider_failure"] as? String
            }
            try await eventually("the other host is connected to", timeout: .seconds(60)) {
                try await dispatcher.metric("apus_provider_connections", #"provider="apns""#, #"state="open""#) > 0
            }
            try await eventually("the route fails", timeout: .seconds(60)) { try await failing(route) == 1 }
            #expect(try failure(of: route)?.hasSuffix(": Connection refused") == true)
            #expect(try await failing(other) == 0)
            #expect(try failure(of: other) == nil)
            let doctor = try OperatorProgram.run(["doctor", "--offline", "--redis", fleet.redisURL])
            let line = doctor.lines.first { $0.contains(route) && $0.contains(": Connection refused") }
            #expect(doctor.code == 1 && line?.hasPrefix("fail") == true, "\(doctor.lines)")

            try await fleet.simulator.setListening(true, at: .apns)
            try await eventually("the route works", timeout: .seconds(120)) { try await failing(route) == 0 }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Lag and a dry run say why a provider cannot be reached, until it can be`() async throws {
        try await Fleet.with { fleet in
            _ = try await fleet.register(20, topics: { _ in ["news"] })
            let providers = [Provider.apns, .fcm]
            for provider in providers { try await fleet.simulator.setListening(false, at: provider) }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "waiting")
            func fault(of provider: Provider) throws -> String? {
                let routes = try fleet.apus("lag").json["routes"] as? [[String: Any]]
                let row = routes?.first { $0["route"] as? String == "\(Fleet.app)/\(provider.name)/production" }
                return row?["connection_fault"] as? String
            }
            try await eventually("both routes say why", timeout: .seconds(60)) {
                try providers.allSatisfy { try fault(of: $0)?.hasSuffix(": Connection refused") == true }
            }
            let lag = try OperatorProgram.run(["lag", "--redis", fleet.redisURL])
            let states = lag.lines.filter { $0.contains(": Connection refused (") }
            #expect(states.count == 2 && states.allSatisfy { $0.hasSuffix(" ago)") })

            let dryRun = try OperatorProgram.run([
                "send", "--dry-run", "--app", Fleet.app, "--topic", "news", "--title", "Hello",
                "--config", "\(dispatcher.directory)/apus.yaml", "--redis", fleet.redisURL,
            ])
            let verdicts = dryRun.lines.filter { $0.contains("unknown, because") }
            #expect(verdicts.count == 1 && verdicts.allSatisfy { $0.contains("no answer: ") && $0.contains("refused") })

            for provider in providers { try await fleet.simulator.setListening(true, at: provider) }
            #expect(try await fleet.completion(of: "waiting").total(.accepted) == 20)
            try await eventually("neither route has a fault", timeout: .seconds(60)) {
                try providers.allSatisfy { try fault(of: $0) == nil }
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
