import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

/// Compares what the simulator accepted with an audience: all zero when every recipient was reached once and nobody else was.
struct Comparison: Equatable, CustomStringConvertible {
    var lost = 0
    var strangers = 0
    var repeated = 0

    init(accepted: [String: Int], audience: Set<String>) {
        self.lost = audience.subtracting(accepted.keys).count
        self.strangers = Set(accepted.keys).subtracting(audience).count
        self.repeated = accepted.values.reduce(0) { $0 + $1 - 1 }
    }

    static let exact = Comparison(accepted: [:], audience: [])

    var description: String { "lost \(self.lost), strangers \(self.strangers), repeated \(self.repeated)" }
}

@Suite(.serialized) struct MainJobTests {
    @Test func `A topic send reaches its subscribers once, prunes the dead, and the ledger adds up`() async throws {
        try await Fleet.with(dead: 0.05) { fleet in
            let devices = try await fleet.register(2_000) {
                $0.isMultiple(of: 4) || $0.isMultiple(of: 5) ? ["news"] : ["other"]
            }
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "topic-1")
            let ledger = try await fleet.completion(of: "topic-1")
            let audience = devices.enumerated().filter { $0.offset.isMultiple(of: 4) || $0.offset.isMultiple(of: 5) }
                .map(\.element)
            let dead = audience.filter { fleet.simulator.isDead($0.token, provider: $0.provider) }
            #expect(dead.count > 10)
            #expect(ledger.planned == UInt64(audience.count))
            #expect(ledger.total(.unregistered) == UInt64(dead.count))
            #expect(ledger.total(.accepted) == UInt64(audience.count - dead.count))
            #expect(ledger.total(.open) == 0)
            let living = Set(audience.map(\.token)).subtracting(dead.map(\.token))
            #expect(Comparison(accepted: fleet.accepted(of: "topic-1"), audience: living) == .exact)
            for device in dead {
                let stored = try await fleet.installation.store.get(try AppID(Fleet.app), try DeviceID(device.id))
                #expect(stored == nil, "\(device.id) should be gone")
            }
            let receipts = try await fleet.receipts(of: "topic-1")
            #expect(receipts.map(\.kind) == [.final])
            #expect(receipts.first?.planned == ledger.planned)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `Every kind of target reaches its recipients`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(
                400,
                topics: { index in
                    (index.isMultiple(of: 2) ? ["even"] : []) + (index.isMultiple(of: 3) ? ["three"] : [])
                },
                user: { "user-\($0 / 4)" },
            )
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            func expect(_ send: String, _ indices: [Int]) {
                let audience = Set(indices.map { devices[$0].token })
                #expect(Comparison(accepted: fleet.accepted(of: send), audience: audience) == .exact, "\(send)")
            }
            func direct(_ target: Target, _ id: String) async throws {
                try await fleet.send(target, id: id, lane: .express)
                try await eventually("\(id) has its receipt") {
                    try await fleet.receipts(of: id).contains { $0.kind == .final }
                }
            }
            try await direct(.devices([devices[7].id]), "one-device")
            expect("one-device", [7])
            try await direct(.users(["user-3"]), "one-user")
            expect("one-user", Array(12..<16))
            try await direct(.devices(["nobody"]), "no-device")
            #expect(try await fleet.receipts(of: "no-device").first?.counts.map(\.outcome) == [.skipped])
            let addresses = [10, 11].map { Address(provider: devices[$0].provider, token: devices[$0].token) }
            try await direct(.addresses(addresses), "addresses")
            expect("addresses", [10, 11])

            try await fleet.send(.users((0..<100).map { "user-\($0)" }), id: "all-users")
            try await fleet.send(.devices(devices.map(\.id) + ["missing"]), id: "all-devices")
            try await fleet.send(.condition("'even' in topics && !('three' in topics)"), id: "condition")
            try await fleet.send(.expression("'even' in topics && !('three' in topics)"), id: "expression")
            let attributes = "'three' in topics && (platform == 'android' || user in ['user-0', 'user-3'])"
            try await fleet.send(.expression(attributes), id: "attributes")
            try await fleet.send(.expression("seen_at < now-1d || locale != ''"), id: "nobody")
            try await fleet.send(.everyone([]), id: "everyone")
            try await fleet.send(.everyone([.fcm]), id: "everyone-fcm")
            let many = devices.map { Address(provider: $0.provider, token: $0.token) }
            try await fleet.send(.addresses(many), id: "all-addresses")
            let sends = [
                "all-users", "all-devices", "condition", "expression", "attributes", "nobody", "everyone",
                "everyone-fcm",
                "all-addresses",
            ]
            for send in sends { #expect(try await fleet.completion(of: send).total(.open) == 0) }
            expect("all-users", Array(0..<400))
            expect("all-devices", Array(0..<400))
            expect("condition", (0..<400).filter { $0.isMultiple(of: 2) && !$0.isMultiple(of: 3) })
            expect("expression", (0..<400).filter { $0.isMultiple(of: 2) && !$0.isMultiple(of: 3) })
            let chosen = (0..<400).filter {
                $0.isMultiple(of: 3) && (!$0.isMultiple(of: 2) || [0, 3].contains($0 / 4))
            }
            expect("attributes", chosen)
            // Records are read when planning too: who does not match is not even counted.
            #expect(try await fleet.completion(of: "attributes").planned == UInt64(chosen.count))
            expect("nobody", [])
            expect("everyone", Array(0..<400))
            expect("everyone-fcm", (0..<400).filter { !$0.isMultiple(of: 2) })
            expect("all-addresses", Array(0..<400))
            #expect(try await fleet.completion(of: "all-devices").total(.skipped) == 1)
            try await eventually("nothing is left") { try await fleet.remainingEntries() == [:] }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A command that cannot be accepted becomes a dead letter and a receipt, and blocks nothing`()
        async throws
    {
        try await Fleet.with { fleet in
            _ = try await fleet.register(10)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "unknown-app", app: "ghost")
            try await fleet.send(.everyone([]), id: "too-big") {
                $0.notification.body = String(repeating: "x", count: 4_090)
            }
            let keys = fleet.installation.streams.keys(shard: 0)
            _ = try await fleet.client.send(
                .init("XADD", .text(keys.mailbox(.bulk)), "*", "m", .bytes([0xff, 0x00, 0x01])),
                on: keys.tag,
            )
            try await fleet.send(.everyone([]), id: "good")
            #expect(try await fleet.completion(of: "good").total(.accepted) == 10)
            try await eventually("the refusals are told") {
                let ghost = try await fleet.receipts(of: "unknown-app").first?.problem?.code
                let big = try await fleet.receipts(of: "too-big").first?.problem?.code
                return ghost == "unknown_app" && big == "payload_too_large"
            }
            var dead = 0
            for shard in 0..<2 {
                let keys = fleet.installation.streams.keys(shard: shard)
                dead += Int(
                    try await fleet.client.send(.init("XLEN", .text(keys.dead)), on: keys.tag).root.integer ?? 0
                )
            }
            #expect(dead == 3)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `The same command twice is sent once, and another under its key is refused`() async throws {
        try await Fleet.with { fleet in
            let devices = try await fleet.register(3)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            // Written straight into a mailbox that is not its home, as a publisher without the function does.
            func write(_ title: String, shard: Int) async throws {
                var notification = Notification()
                notification.title = title
                var command = SendCommand(app: Fleet.app, target: .devices([devices[0].id]), notification: notification)
                command.idempotencyKey = "order-1"
                let keys = fleet.installation.streams.keys(shard: shard)
                _ = try await fleet.client.send(
                    .init("XADD", .text(keys.mailbox(.express)), "*", "m", .bytes(try command.encode())),
                    on: keys.tag,
                )
            }
            try await write("A", shard: 0)
            try await eventually("it is sent") { fleet.simulator.ledger.snapshot.count == 1 }
            try await write("A", shard: 1)
            try await write("B", shard: 1)
            try await eventually("the mailboxes are empty") { try await fleet.remainingEntries() == [:] }
            #expect(fleet.simulator.ledger.snapshot.count == 1)
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
