import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Testing

/// Sends whose routes no dispatcher has configured any more.
@Suite(.serialized) struct RemovedRouteTests {
    @Test func `The rest of a removed app's sends ends as no_route, cancelled or not, and others go on`()
        async throws
    {
        let shop = SimulatedApp(name: "shop", bundleID: "example.shop", keyID: "SHOPKEY001", projectID: "shop-push")
        let news = SimulatedApp(name: "news", bundleID: "example.news", keyID: "NEWSKEY001", projectID: "news-push")
        try await Fleet.with(apps: [shop, news]) { fleet in
            _ = try await fleet.register(200, app: "shop") { _ in ["all"] }
            _ = try await fleet.register(2_000, app: "news") { _ in ["all"] }
            let feedback = try await fleet.startFeedback(lease: "1s")
            let settings = ["lease": "1s", "removed_route_after": "2s"]
            try await fleet.pauseRoutes(of: "news")
            let before = try await fleet.start("dispatcher", settings)
            // One with units that wait, one of which nothing is planned yet, and one that is cancelled afterwards.
            try await fleet.send(.topic("all"), id: "waiting", app: "news")
            try await fleet.send(.topic("all"), id: "stopped", app: "news")
            try await eventually("units wait", timeout: .seconds(60)) {
                guard try await fleet.ledger(of: "waiting", app: "news")?.planned == 2_000 else { return false }
                return try await fleet.ledger(of: "stopped", app: "news")?.planned == 2_000
            }
            await before.kill()
            let later = UnixMilliseconds(fleet.clock.nanosecondsSince1970() / 1_000_000 + 3_000)
            try await fleet.send(.topic("all"), id: "unplanned", app: "news") { $0.notBefore = later }
            // Somebody must still know the app to take the last one.
            let between = try await fleet.start("dispatcher", settings)
            try await eventually("it is taken", timeout: .seconds(60)) {
                try await fleet.ledger(of: "unplanned", app: "news") != nil
            }
            await between.kill()
            let after = try await fleet.start("dispatcher", settings, missing: ["news"])
            let control = fleet.installation.streams.control
            let stopped = try #require(try await control.find(app: "news", send: "stopped"))
            _ = try await control.apply(.cancel, to: SendKey(app: "news", id: "stopped"), at: stopped.places)
            for send in ["waiting", "unplanned", "stopped"] {
                let ledger = try await fleet.completion(of: send, app: "news", timeout: .seconds(120))
                #expect(ledger.planned == 2_000 && ledger.total(.open) == 0, "\(send): \(ledger)")
                #expect(ledger.counts.allSatisfy { $0.reason == .noRoute || $0.outcome == .cancelled }, "\(ledger)")
                #expect(ledger.unplanned == 0)
                if send != "stopped" { #expect(ledger.total(.failed) == 2_000) }
                try await eventually("\(send) has its last receipt") {
                    try await fleet.receipts(of: send).last?.kind == .final
                }
                #expect(fleet.accepted(of: send).isEmpty)
            }
            try await fleet.send(.topic("all"), id: "other", app: "shop")
            #expect(try await fleet.completion(of: "other", app: "shop").total(.accepted) == 200)
            try await eventually("nothing is left", timeout: .seconds(60)) {
                try await fleet.remainingEntries() == [:]
            }
            try await after.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Recipients on a removed route of an app end as no_route, and the others are sent to`()
        async throws
    {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(2_000) { _ in ["all"] }
            let google = devices.count { $0.provider == .fcm }
            let feedback = try await fleet.startFeedback(lease: "1s")
            let settings = ["lease": "1s", "removed_route_after": "2s"]
            let numbers = try await fleet.pauseRoutes()
            let before = try await fleet.start("dispatcher", settings)
            try await fleet.send(.topic("all"), id: "waiting")
            try await eventually("units wait", timeout: .seconds(60)) {
                try await fleet.ledger(of: "waiting")?.planned == 2_000
            }
            let later = UnixMilliseconds(fleet.clock.nanosecondsSince1970() / 1_000_000 + 3_000)
            for (id, target) in [
                ("audience", Target.topic("all")), ("list", .devices(devices.prefix(100).map(\.id))),
            ] {
                try await fleet.send(target, id: id) { $0.notBefore = later }
                try await eventually("it is taken", timeout: .seconds(60)) { try await fleet.ledger(of: id) != nil }
            }
            await before.kill()
            let after = try await fleet.start("dispatcher", settings, appsWithoutGoogle: [Fleet.app])
            for number in numbers { try await fleet.installation.streams.routes.control(number, .resume) }
            let sends = [("waiting", devices[...]), ("audience", devices[...]), ("list", devices.prefix(100))]
            for (send, recipients) in sends {
                let lost = recipients.count { $0.provider == .fcm }
                let ledger = try await fleet.completion(of: send, timeout: .seconds(120))
                #expect(ledger.planned == recipients.count && ledger.unplanned == 0, "\(send): \(ledger)")
                #expect(ledger.total(.accepted) == UInt64(recipients.count - lost), "\(send): \(ledger)")
                let none = ledger.counts.filter { $0.reason == .noRoute }
                #expect(none.reduce(0) { $0 + $1.count } == UInt64(lost), "\(send): \(ledger)")
                #expect(none.allSatisfy { $0.outcome == .failed && $0.provider == .fcm })
            }
            #expect(google == 1_000)
            try await after.terminate()
            try await feedback.terminate()
        }
    }
}
