import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

@Suite(.serialized) struct IsolationTests {
    @Test
    func `Two apps of 25,000 devices each, two dispatchers: full slabs, dense postings, and nobody gets another's`()
        async throws
    {
        let shop = SimulatedApp(name: "shop", bundleID: "example.shop", keyID: "SHOPKEY001", projectID: "shop-push")
        // Of another team, too: a token of one team on a connection of the other is refused (D35).
        let news = SimulatedApp(
            name: "news",
            bundleID: "example.news",
            teamID: "NEWSTEAM01",
            keyID: "NEWSKEY001",
            projectID: "news-push",
        )
        try await Fleet.with(apps: [shop, news]) { fleet in
            let perApp = 25_000
            // The same device ids and topics in both: only the app tells them apart.
            let topics: @Sendable (Int) -> [String] = { index in
                (index.isMultiple(of: 100) ? ["rare"] : []) + (index.isMultiple(of: 3) ? [] : ["dense"])
            }
            async let shopDevices = fleet.register(perApp, app: "shop", topics: topics)
            async let newsDevices = fleet.register(perApp, app: "news", topics: topics)
            let devices = ["shop": try await shopDevices, "news": try await newsDevices]
            let feedback = try await fleet.startFeedback()
            let one = try await fleet.startDispatcher()
            let two = try await fleet.startDispatcher()
            for app in ["shop", "news"] {
                try await fleet.send(.topic("dense"), id: "\(app)-dense", app: app)
                try await fleet.send(.topic("rare"), id: "\(app)-rare", app: app)
                try await fleet.send(.condition("!('dense' in topics)"), id: "\(app)-sparse", app: app)
            }
            for (app, devices) in devices {
                let audiences: [(String, (Int) -> Bool)] = [
                    ("dense", { !$0.isMultiple(of: 3) }), ("rare", { $0.isMultiple(of: 100) }),
                    ("sparse", { $0.isMultiple(of: 3) }),
                ]
                for (name, isMember) in audiences {
                    let send = "\(app)-\(name)"
                    let ledger = try await fleet.completion(of: send, app: app, timeout: .seconds(120))
                    let audience = Set(devices.enumerated().filter { isMember($0.offset) }.map(\.element.token))
                    #expect(Comparison(accepted: fleet.accepted(of: send), audience: audience) == .exact, "\(send)")
                    #expect(
                        ledger.planned == UInt64(audience.count) && ledger.total(.accepted) == ledger.planned,
                        "\(send)"
                    )
                }
            }
            #expect(fleet.simulator.ledger.snapshot.summary.count(.apns, status: 403) == 0)
            let check = try await StoreCheck.run(fleet.installation.store, try AppID("shop"))
            #expect(check.problems.isEmpty)
            try await one.terminate()
            try await two.terminate()
            try await feedback.terminate()
        }
    }
}
