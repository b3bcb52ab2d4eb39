import ApusCore
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

/// Providers that nobody can connect to, through the eyes of an operator.
@Suite(.timeLimit(.minutes(5))) struct UnreachableProviderTests {
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
