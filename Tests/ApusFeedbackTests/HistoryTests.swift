import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

@testable import ApusFeedback

/// Tests what feedback records of devices and reports of open sends, in a real Redis.
@Suite struct HistoryTests {
    private let app: AppID
    private let device: DeviceID

    init() throws {
        self.app = try AppID("shop")
        self.device = try DeviceID("d")
    }

    private func verdict(_ device: StoredDevice, asOf: UnixMilliseconds) -> OutcomeBatch {
        var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
        batch.counts = [OutcomeCount(provider: .apns, outcome: .unregistered, reason: .unregistered, count: 1)]
        batch.unregistered = [
            TokenVerdict(
                place: .device(device.reference),
                tokenDigest: DeviceToken.digest(device.record.token),
                asOf: asOf,
                reason: .unregistered,
                providerReason: "Unregistered",
            )
        ]
        batch.isFinal = true
        batch.planned = 1
        return batch
    }

    private func again() -> DeviceRegistration {
        DeviceRegistration(device: "d", provider: .apns, token: String(repeating: "cd", count: 32))
    }

    @Test func `A pruned device has a history, once each event, until the app deletes it`() async throws {
        try await HandlerFixture.with { fixture in
            let (store, device) = (fixture.installation.store, fixture.device)
            #expect(try await store.history(self.app, self.device) == [])
            let asOf = device.registeredAt.advanced(byMilliseconds: 1)
            for _ in 0..<3 { try await fixture.apply(self.verdict(device, asOf: asOf)) }
            let events = try await store.history(self.app, self.device)
            #expect(events.map(\.kind) == [.pruned])
            let event = try #require(events.first)
            #expect(event.at == asOf && event.reason == .unregistered && event.providerReason == "Unregistered")
            #expect(event.send == "s" && event.provider == .apns)

            try await store.note(
                events.map { DeviceStore.HistoryEntry($0, of: device) },
                DeviceStore.HistoryRules(keepMilliseconds: 60_000),
            )
            #expect(try await store.history(self.app, self.device) == events)

            _ = try await store.register(self.app, self.again())
            _ = try await store.bindUser(self.app, self.device, try UserID("ada"))
            let kinds = try await store.history(self.app, self.device).map(\.kind)
            #expect(kinds == [.pruned, .registered, .userChanged])
            _ = try await store.delete(self.app, self.device)
            #expect(try await store.history(self.app, self.device) == [])
        }
    }

    @Test func `Deleting a device that was pruned forgets its history, too`() async throws {
        try await HandlerFixture.with { fixture in
            let store = fixture.installation.store
            let asOf = fixture.device.registeredAt.advanced(byMilliseconds: 1)
            try await fixture.apply(self.verdict(fixture.device, asOf: asOf))
            #expect(try await store.history(self.app, self.device).count == 1)
            #expect(try await store.delete(self.app, self.device) == .missing)
            #expect(try await store.history(self.app, self.device) == [])
        }
    }

    @Test func `Events that wait while a user is forgotten begin no history anew`() async throws {
        try await HandlerFixture.with { fixture in
            let store = fixture.installation.store
            for isSuspect in [true, false] {
                var registration = self.again()
                registration.user = "ada"
                let device = try await store.register(self.app, registration).device
                var batch = self.verdict(device, asOf: device.registeredAt.advanced(byMilliseconds: 1))
                if isSuspect { (batch.suspects, batch.unregistered) = (batch.unregistered, []) }
                let (client, handler) = (fixture.client, fixture.handler)
                try await handler.handle(try await HandlerFixture.deliver(batch, client, handler))
                #expect(try await store.history(self.app, self.device).map(\.kind) == (isSuspect ? [] : [.pruned]))
                try await store.deleteUser(self.app, UserID("ada"))
                await handler.history.flush()
                #expect(try await store.history(self.app, self.device) == [])
                #expect(try await store.get(self.app, self.device) == nil)
            }
        }
    }

    @Test func `A device that was registered again since is kept, and its history says so`() async throws {
        try await HandlerFixture.with { fixture in
            let asOf = fixture.device.registeredAt.advanced(byMilliseconds: -1)
            try await fixture.apply(self.verdict(fixture.device, asOf: asOf))
            let events = try await fixture.installation.store.history(self.app, self.device)
            #expect(events.map(\.kind) == [.kept])
        }
    }

    @Test func `A history keeps its last events, and ends some time after the last`() async throws {
        try await HandlerFixture.with { fixture in
            let store = fixture.installation.store
            let most = StoreLimits.historyEventsMax
            for number in 0..<(most + 5) {
                var event = HistoryEvent(.ended, at: UnixMilliseconds(Int64(number)), provider: .apns)
                event.providerReason = String(repeating: "x", count: 1_000)
                try await store.note(
                    [DeviceStore.HistoryEntry(event, of: fixture.device)],
                    DeviceStore.HistoryRules(keepMilliseconds: 60_000),
                )
            }
            let events = try await store.history(self.app, self.device)
            #expect(events.map(\.at.value) == (5..<(most + 5)).map { Int64($0) })
            #expect(events.allSatisfy { $0.providerReason.utf8.count <= StoreLimits.historyTextBytesMax })
            try await store.note(
                [DeviceStore.HistoryEntry(HistoryEvent(.ended, at: .init(99)), of: fixture.device)],
                DeviceStore.HistoryRules(keepMilliseconds: 1)
            )
            try await eventually("the history is gone") {
                try await store.history(self.app, self.device).isEmpty
            }
        }
    }

    private func outcome(_ outcome: Outcome, _ device: StoredDevice) -> RecipientOutcome {
        var told = RecipientOutcome(
            place: .device(device.reference),
            outcome: outcome,
            reason: outcome == .accepted ? .none : .payload,
            at: UnixMilliseconds(1_700_000_000_000),
        )
        told.providerID = outcome == .accepted ? "0f0e0d0c-0000-8000-8000-000000000001" : ""
        told.providerReason = outcome == .accepted ? "" : "PayloadTooLarge"
        told.device = device.id
        return told
    }

    @Test(arguments: [true, false])
    func `Outcomes one by one are told: all of a send that names its recipients, of others what was not accepted`(
        isNamed: Bool
    ) async throws {
        try await HandlerFixture.with { fixture in
            try await fixture.makeLedger(of: "s", planned: 100)
            for kind in [Outcome.accepted, .rejected] {
                var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
                batch.receiptLevel = isNamed ? .none : .recipients
                batch.recipients = [self.outcome(kind, fixture.device)]
                batch.namesRecipients = isNamed
                batch.isFinal = isNamed
                batch.planned = 1
                try await fixture.apply(batch)
            }
            let events = try await fixture.installation.store.history(self.app, self.device)
            #expect(events.map(\.kind) == (isNamed ? [.accepted, .ended] : [.ended]))
            #expect(events.last?.providerReason == "PayloadTooLarge" && events.last?.outcome == .rejected)
            if isNamed { #expect(events.first?.providerID == "0f0e0d0c-0000-8000-8000-000000000001") }
        }
    }

    @Test func `A recipient that no route leads to is in its device's history, under its own provider`() async throws {
        try await HandlerFixture.with { fixture in
            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(7), provider: .fcm)
            var ended = self.outcome(.failed, fixture.device)
            (ended.reason, ended.provider) = (.noRoute, .apns)
            batch.recipients = [ended]
            batch.namesRecipients = true
            batch.isFinal = true
            batch.planned = 1
            try await fixture.apply(batch)
            let events = try await fixture.installation.store.history(self.app, self.device)
            #expect(events.map(\.kind) == [.ended] && events.first?.reason == .noRoute)
            #expect(events.first?.provider == .apns && events.first?.send == "s")
        }
    }

    @Test func `A writer that has nothing to write wakes for what comes, and for the end of its task`() async throws {
        try await HandlerFixture.with { fixture in
            let history = fixture.handler.history
            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.namesRecipients = true
            let writing = Task { await history.run() }
            for kind in [Outcome.accepted, .rejected] {
                batch.recipients = [self.outcome(kind, fixture.device)]
                await history.noteRecipients(of: batch)
                try await eventually("the event is in the history") {
                    try await fixture.installation.store.history(self.app, self.device).last?.outcome == kind
                }
            }
            writing.cancel()
            await writing.value
            // One that is cancelled before it sleeps ends, too.
            let cancelled = Task { await history.run() }
            cancelled.cancel()
            await cancelled.value
        }
    }

    @Test func `Who was deleted, or registered anew in its place, is told nothing of what was sent before`()
        async throws
    {
        try await HandlerFixture.with { fixture in
            let store = fixture.installation.store
            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.recipients = [self.outcome(.accepted, fixture.device)]
            batch.namesRecipients = true
            batch.isFinal = true
            batch.planned = 1
            _ = try await store.delete(self.app, self.device)
            try await fixture.apply(batch)
            #expect(try await store.history(self.app, self.device) == [])
            _ = try await store.register(self.app, self.again())
            try await fixture.apply(batch)
            #expect(try await store.history(self.app, self.device) == [])
        }
    }

    @Test func `The number of histories is limited: those without trouble go first, then the oldest`()
        async throws
    {
        try await HandlerFixture.with { fixture in
            let store = fixture.installation.store
            // Of one partition, so that it is known who makes way for whom.
            var devices: [StoredDevice] = []
            var number = 0
            while devices.count < 8 {
                number += 1
                let token = String(repeating: "0", count: 60) + String(number + 0x1000, radix: 16)
                let registration = DeviceRegistration(device: "phone-\(number)", provider: .apns, token: token)
                let device = try await store.register(self.app, registration).device
                if device.reference.partition == fixture.device.reference.partition { devices.append(device) }
            }
            let partitions = fixture.installation.keyspace.devicePartitions
            let rules = DeviceStore.HistoryRules(keepMilliseconds: 600_000, devicesMax: 4 * partitions)
            func note(_ index: Int, _ kind: HistoryEvent.Kind) async throws {
                let event = HistoryEvent(kind, at: UnixMilliseconds(Int64(index)), provider: .apns)
                try await store.note([DeviceStore.HistoryEntry(event, of: devices[index])], rules)
                // A device that is reported later has a later time.
                try await Task.sleep(for: .milliseconds(2))
            }
            func told() async throws -> [Int] {
                var told: [Int] = []
                for index in devices.indices {
                    let id = try DeviceID(devices[index].id)
                    if try await !store.history(self.app, id).isEmpty { told.append(index) }
                }
                return told
            }
            for index in 0..<2 { try await note(index, .ended) }
            for index in 2..<4 { try await note(index, .accepted) }
            #expect(try await told() == [0, 1, 2, 3])
            try await note(4, .accepted)
            #expect(try await told() == [0, 1, 3, 4])
            for index in 5..<7 { try await note(index, .pruned) }
            #expect(try await told() == [0, 1, 5, 6])
            try await note(7, .ended)
            #expect(try await told() == [1, 5, 6, 7])
            // A forgotten entry makes room.
            _ = try await store.delete(self.app, try DeviceID(devices[5].id))
            try await note(2, .accepted)
            #expect(try await told() == [1, 2, 6, 7])
        }
    }

    @Test func `Nothing of it costs a device without a history a key`() async throws {
        try await HandlerFixture.with { fixture in
            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
            batch.isFinal = true
            batch.planned = 1
            try await fixture.apply(batch)
            _ = try await fixture.installation.store.register(self.app, self.again())
            let keys = try await fixture.client.send(RedisCommand("KEYS", "*hist*"), on: fixture.handler.keys.tag)
            #expect(keys.root.count == 0)
        }
    }

    // MARK: Progress

    @Test(arguments: [SendCommand.ReceiptLevel.summary, .none])
    func `Progress is reported each time that a share of a send is done`(
        level: SendCommand.ReceiptLevel
    ) async throws {
        try await HandlerFixture.with { fixture in
            try await fixture.makeLedger(of: "s", planned: 8)
            for _ in 0..<8 {
                var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
                batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
                batch.receiptLevel = level
                try await fixture.apply(batch)
            }
            let receipts = try await fixture.receipts()
            guard level != .none else {
                #expect(receipts == [])
                return
            }
            // The rule of the fixture: a quarter must be done since, whatever the time.
            #expect(receipts.map(\.kind) == [.progress, .progress, .progress, .final])
            #expect(
                receipts.map(\.id) == ["progress:shop/s:2", "progress:shop/s:4", "progress:shop/s:6", "final:shop/s"]
            )
            #expect(receipts.map { $0.counts.reduce(0) { $0 + $1.count } } == [2, 4, 6, 8])
            #expect(receipts.allSatisfy { $0.planned == 8 })
        }
    }

    @Test func `A send that ended without one of its plans is reported as incomplete, and again when it has gone on`()
        async throws
    {
        try await HandlerFixture.with { fixture in
            func end(_ fields: RedisArgument...) async throws {
                try await fixture.makeLedger(of: "s", planned: 1)
                let key = RedisArgument.text(fixture.handler.keys.send("shop/s"))
                let command = RedisCommand("HSET", [key] + fields)
                _ = try await fixture.client.send(command, on: fixture.handler.keys.tag)
                var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
                batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
                try await fixture.apply(batch)
            }
            try await end("unplanned", "1")
            try await end("unplanned", "0", "reopened", "1")
            let receipts = try await fixture.receipts().filter { $0.kind == .final }
            #expect(receipts.map(\.id) == ["final:shop/s", "final:shop/s:1"])
            #expect(receipts.map { $0.problem?.code } == ["incomplete", nil])
        }
    }

    @Test func `A send that uses an id again has receipts of its own`() async throws {
        try await HandlerFixture.with { fixture in
            for idUse in [1, 1, 2] as [UInt32] {
                var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
                batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
                (batch.isFinal, batch.planned, batch.idUse) = (true, 1, idUse)
                try await fixture.apply(batch)
            }
            try await fixture.makeLedger(of: "s", planned: 1)
            var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
            batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
            batch.idUse = 3
            try await fixture.apply(batch)
            #expect(
                try await fixture.receipts().map(\.id) == [
                    "final:shop/s:1", "final:shop/s:1", "final:shop/s:2", "final:shop/s:3",
                ]
            )
        }
    }

    @Test func `Progress is reported no more often than the rule says`() async throws {
        let hourly = ProgressRules(everyMilliseconds: 3_600_000, percent: 1)
        try await HandlerFixture.with(progress: hourly) { fixture in
            try await fixture.makeLedger(of: "s", planned: 5)
            for _ in 0..<5 {
                var batch = OutcomeBatch(send: "s", app: "shop", route: RouteNumber(1), provider: .apns)
                batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
                try await fixture.apply(batch)
            }
            #expect(try await fixture.receipts().map(\.kind) == [.final])
        }
    }
}
