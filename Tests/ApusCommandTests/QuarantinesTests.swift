import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusService
import ApusStore
import ApusStreams
import ApusTerminal
import ApusTestKit
import Testing

@testable import ApusCommand

@Suite struct QuarantinesTests {
    private static let now = UnixMilliseconds(1_700_000_000_000)

    private static func state(
        _ route: String,
        suspects: Int,
        moving: Int,
        retrying: Int = 0,
        since: Int64? = nil
    ) -> String {
        var guardState = TokenQuarantine.State()
        guardState.tokens = suspects
        guardState.quarantinedAt = since.map { UnixMilliseconds(Self.now.value - $0) }
        let row = Quarantines.Row(
            route: route,
            state: guardState,
            moving: moving,
            retrying: retrying,
            isPaused: since != nil
        )
        #expect(row.json["moving"] == .integer(moving) && row.json["retrying"] == .integer(retrying))
        return Quarantines.table([row], now: Self.now).lines.last ?? ""
    }

    @Test func `A list says which devices will be deleted and which moved`() {
        let production = "shop/apns/production"
        #expect(Self.state(production, suspects: 40, moving: 0).contains("  waiting to be deleted"))
        #expect(Self.state(production, suspects: 40, moving: 40).contains("  waiting to be moved to sandbox"))
        #expect(
            Self.state(production, suspects: 40, moving: 2)
                .contains("  38 waiting to be deleted, 2 to be moved to sandbox")
        )
        #expect(Self.state("shop/apns/sandbox", suspects: 1, moving: 1).contains("  waiting to be moved to production"))
        let browsers = "shop/webpush/production"
        #expect(Self.state(browsers, suspects: 4, moving: 0, retrying: 4).contains("  waiting to be tried again"))
        #expect(
            Self.state(browsers, suspects: 4, moving: 0, retrying: 1)
                .contains("  3 waiting to be deleted, 1 to be tried again")
        )
        let held = Self.state(production, suspects: 40, moving: 2, since: 60_000)
        #expect(held.contains("in quarantine for") && !held.contains("waiting"))
        #expect(held.contains(" (once confirmed: 38 deleted, 2 moved to sandbox), paused"))
        let kept = Self.state(browsers, suspects: 4, moving: 0, retrying: 4, since: 60_000)
        #expect(kept.contains(" (once confirmed: 4 tried again), paused"))
    }

    @Test func `What is deleted can be brought back as the configuration says, and for a week where there is none`()
        throws
    {
        let folder = try TemporaryFolder()
        func undo(_ window: String) throws -> DeviceStore.UndoRules? {
            let yaml = "feedback: {undo_window: \(window)}\n"
            let file = try folder.write("apus.yaml", yaml)
            return try ConfigurationAccess.undo(in: SettingsSource(file: file, environment: [:]))
        }
        #expect(try undo("0s") == nil)
        #expect(try undo("1h") == DeviceStore.UndoRules(keepMilliseconds: 3_600_000))
        #expect(throws: CommandFailure.self) { try undo("soon") }
        #expect(try ConfigurationAccess.undo(in: SettingsSource(file: nil, environment: [:])) == .default)
        let variables = SettingsSource(file: nil, environment: ["APUS_FEEDBACK_UNDO_WINDOW": "0s"])
        #expect(try ConfigurationAccess.undo(in: variables) == nil)
    }

    @Test func `A confirmation deletes no device that is only tried again, and says of the others what became of them`()
        async throws
    {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            }
            try await RedisAccess.withInstallation(server.url) { installation in
                let (store, streams) = (installation.store, installation.streams)
                let route = Route(app: try AppID("shop"), provider: .webpush, environment: .production)
                let number = try await streams.routes.number(of: route)
                var tokens: [OwnedToken] = []
                for (id, reason) in [("bad", Reason.badToken), ("foreign", .wrongSender)] {
                    let registration = DeviceRegistration(
                        device: id,
                        provider: .webpush,
                        token: "https://push.example/\(id)"
                    )
                    let device = try await store.register(route.app, registration).device
                    let token = QuarantinedToken(
                        reference: device.reference,
                        tokenDigest: DeviceToken.digest(device.record.token),
                        since: device.registeredAt,
                        reason: reason
                    )
                    _ = try await store.markSuspect(
                        route,
                        token.reference,
                        tokenDigest: token.tokenDigest,
                        reason: reason,
                        since: token.since
                    )
                    tokens.append(OwnedToken(token, of: id, registeredAt: UnixMilliseconds(0)))
                }
                let rules = GuardRules(
                    windowMilliseconds: 60_000,
                    delayMilliseconds: 600_000,
                    tokensMin: 2,
                    percentMax: 10,
                    deadPercentMax: 50,
                )
                #expect(try await streams.quarantine.add(tokens, of: 4, on: number, rules: rules).verdict == .tripped)
                let quarantines = Quarantines(installation)
                let row = try #require(try await quarantines.rows().first)
                #expect(row.deleting == 1 && row.retrying == 1)
                let history = DeviceStore.HistoryRules(keepMilliseconds: 3_600_000)
                let settlements = try await quarantines.settle(
                    "shop/webpush",
                    .confirm(undo: nil, history: history),
                    resuming: true,
                    by: .shell,
                )
                #expect(settlements.map { [$0.settled, $0.retried, $0.tokens] } == [[1, 1, 2]])
                #expect(settlements.first?.json["retried"] == .integer(1))
                let (bad, foreign) = (try DeviceID("bad"), try DeviceID("foreign"))
                #expect(try await store.get(route.app, bad) == nil)
                let kept = try #require(try await store.get(route.app, foreign))
                #expect(kept.record.suspicion == nil)
                let events = try await store.history(route.app, bad)
                #expect(events.map(\.kind) == [.pruned] && events.map(\.reason) == [.badToken])
                #expect(try await streams.quarantine.state(of: number).tokens == 0)
            }
        }
    }

    @Test func `Histories are kept as the configuration says, and for a week where there is none`() throws {
        let folder = try TemporaryFolder()
        func history(_ feedback: String) throws -> DeviceStore.HistoryRules? {
            let yaml = "feedback: {\(feedback)}\n"
            let file = try folder.write("apus.yaml", yaml)
            return try ConfigurationAccess.history(in: SettingsSource(file: file, environment: [:]))
        }
        #expect(try history("history: false") == nil)
        let own = DeviceStore.HistoryRules(keepMilliseconds: 3_600_000, devicesMax: 7)
        #expect(try history("keep_history: 1h, histories: 7") == own)
        #expect(throws: CommandFailure.self) { try history("keep_history: soon") }
        let none = SettingsSource(file: nil, environment: [:])
        #expect(
            try ConfigurationAccess.history(in: none) == DeviceStore.HistoryRules(keepMilliseconds: 604_800_000)
        )
    }

    @Test func `The decision of an operator reports what it did`() {
        var settlement = Quarantines.Settlement(route: "shop/apns/production")
        (settlement.settled, settlement.moved, settlement.moot) = (38, 2, 1)
        #expect(
            settlement.line(.confirm(undo: nil, history: nil))
                == "shop/apns/production  38 deleted, 2 moved to the other environment, 1 needed nothing; the route is not paused"
        )
        (settlement.settled, settlement.moved, settlement.retried, settlement.moot) = (1, 0, 2, 0)
        #expect(
            settlement.line(.confirm(undo: nil, history: nil))
                == "shop/apns/production  1 deleted, 2 to be tried again; the route is not paused"
        )
        (settlement.settled, settlement.moved, settlement.retried, settlement.moot) = (40, 0, 0, 0)
        #expect(settlement.line(.restore) == "shop/apns/production  40 restored; the route is not paused")
    }
}
