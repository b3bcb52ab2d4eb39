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
    private static let shop = SimulatedApp(
        name: "shop",
        bundleID: "example.shop",
        keyID: "SHOPKEY001",
        projectID: "shop-push"
    )
    // Of another team, too: a token of one team on a connection of the other is refused (D35).
    private static let news = SimulatedApp(
        name: "news",
        bundleID: "example.news",
        teamID: "NEWSTEAM01",
        keyID: "NEWSKEY001",
        projectID: "news-push",
    )

    @Test
    func `Two apps of 25,000 devices each, two dispatchers: full slabs, dense postings, and nobody gets another's`()
        async throws
    {
        try await Fleet.with(apps: [Self.shop, Self.news]) { fleet in
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

    @Test func `Sends of two apps by one id in one shard each reach their own devices, and one is cancelled alone`()
        async throws
    {
        try await Fleet.with(apps: [Self.shop, Self.news]) { fleet in
            let streams = fleet.installation.streams
            let ids = (0..<1_000).map { "daily-\($0)" }.filter {
                streams.home(app: "shop", $0) == streams.home(app: "news", $0)
            }
            let (both, single, direct) = (ids[0], ids[1], ids[2])
            let apps = ["shop", "news"]
            var devices: [String: [SampleDevice]] = [:]
            for app in apps { devices[app] = try await fleet.register(200, app: app) { _ in ["dense"] } }
            let feedback = try await fleet.startFeedback()
            let dispatcher = try await fleet.startDispatcher()
            for app in apps {
                try await fleet.send(.topic("dense"), id: both, app: app)
                try await fleet.send(.topic("dense"), id: single, app: app) { command in
                    guard app == "news" else { return }
                    command.notBefore = SystemClock().now().advanced(byMilliseconds: 3_600_000)
                }
                let device = try #require(devices[app]?.first)
                try await fleet.send(.devices([device.id]), id: direct, app: app, lane: .express)
            }
            for app in apps {
                let ledger = try await fleet.completion(of: both, app: app, timeout: .seconds(60))
                #expect(ledger.app == app && ledger.planned == 200 && ledger.total(.accepted) == 200)
            }
            let everybody = Set(devices.values.joined().map(\.token))
            #expect(Comparison(accepted: fleet.accepted(of: both), audience: everybody) == .exact)
            let firsts = Set(devices.values.compactMap(\.first?.token))
            try await eventually("both direct ones are told", timeout: .seconds(60)) {
                Set(try await fleet.receipts(of: direct).filter { $0.kind == .final }.map(\.app)) == Set(apps)
            }
            #expect(Comparison(accepted: fleet.accepted(of: direct), audience: firsts) == .exact)

            _ = try await fleet.completion(of: single, app: "shop", timeout: .seconds(60))
            let home = streams.home(app: "news", single)
            guard case .ok = try await streams.control.apply(.cancel, to: SendKey(app: "news", id: single), at: home)
            else {
                return #expect(Bool(false), "not cancelled")
            }
            let cancelled = try await fleet.completion(of: single, app: "news", timeout: .seconds(60))
            #expect(cancelled.total(.accepted) == 0)
            let shop = try await fleet.ledger(of: single, app: "shop")
            #expect(shop?.planned == 200 && shop?.total(.accepted) == 200)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
