import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTestKit
import Foundation
import Testing

/// An app that has as many sends open as it may, beside another.
@Suite struct OpenSendTests {
    @Test func `An app that schedules without end is refused with a receipt, and another app goes on`() async throws {
        let shop = SimulatedApp(name: Fleet.app, bundleID: "example.apus.shop", projectID: "apus-shop")
        let news = SimulatedApp(name: "news", bundleID: "example.apus.news", projectID: "apus-news")
        try await Fleet.with(apps: [shop, news]) { fleet in
            _ = try await fleet.register(4, app: "news") { _ in ["all"] }
            let dispatcher = try await fleet.start("dispatcher", ["open_sends_per_app": "1"])
            let feedback = try await fleet.startFeedback()
            let later = UnixMilliseconds(fleet.clock.nanosecondsSince1970() / 1_000_000 + 3_600_000)
            // Each shard takes one.
            let count = fleet.installation.keyspace.queueShards + 1
            for index in 0..<count { try await fleet.send(.topic("all"), id: "s\(index)") { $0.notBefore = later } }
            let refused = try await Self.refused(count, fleet)
            #expect(refused.count >= 1)
            try await fleet.send(.topic("all"), id: "other", app: "news")
            #expect(try await fleet.completion(of: "other", app: "news").total(.accepted) == 4)
            for index in 0..<count where !refused.contains("s\(index)") {
                #expect(try await fleet.ledger(of: "s\(index)") != nil)
            }
            // No dead letter pushes out those of others.
            for shard in 0..<fleet.installation.keyspace.queueShards {
                let keys = fleet.installation.streams.keys(shard: shard)
                let length = RedisCommand("XLEN", .text(keys.dead))
                #expect(try await fleet.client.send(length, on: keys.tag).root.integer == 0)
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    private static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 64 - digits.utf8.count) + digits
    }

    @Test func `Direct sends of a closed route are refused beyond what their app may have open, each with one receipt`()
        async throws
    {
        try await Fleet.with { fleet in
            let routes = try await fleet.pauseRoutes()
            let dispatcher = try await fleet.start("dispatcher", ["open_sends_per_app": "1"])
            let feedback = try await fleet.startFeedback()
            // Each shard keeps one.
            let count = fleet.installation.keyspace.queueShards + 1
            for index in 0..<count {
                let address = Address(provider: .apns, token: Self.token(index + 1))
                try await fleet.send(.addresses([address]), id: "s\(index)", lane: .express)
            }
            let refused = try await Self.refused(count, fleet)
            #expect(refused.count >= 1 && refused.count < count)
            for route in routes { try await fleet.installation.streams.routes.control(route, .resume) }
            for index in 0..<count {
                let id = "s\(index)"
                let isRefused = refused.contains(id)
                try await eventually("\(id) has its receipt", timeout: .seconds(60)) {
                    try await !fleet.receipts(of: id).isEmpty
                }
                #expect(try await fleet.receipts(of: id).map(\.kind) == [isRefused ? .refused : .final])
                #expect(fleet.accepted(of: id).values.reduce(0, +) == (isRefused ? 0 : 1))
            }
            // A refused command has used up its id; under another it goes out.
            for index in 0..<count where refused.contains("s\(index)") {
                let (id, target) = (
                    "s\(index)", Target.addresses([Address(provider: .apns, token: Self.token(index + 1))])
                )
                await #expect(throws: LocalClusterError.self) { try await fleet.send(target, id: id, lane: .express) }
                try await fleet.send(target, id: "\(id)-again", lane: .express)
                try await eventually("\(id) goes out under another id", timeout: .seconds(60)) {
                    try await fleet.receipts(of: "\(id)-again").map(\.kind) == [.final]
                }
                #expect(fleet.accepted(of: id).isEmpty && !fleet.accepted(of: "\(id)-again").isEmpty)
            }
            let counts = try await [
                dispatcher.metric("apus_dispatcher_commands_total", "result=\"accepted\""),
                dispatcher.metric("apus_dispatcher_commands_total", "result=\"invalid\""),
            ]
            // A dispatcher that stalls for longer than its lease may count an entry twice.
            #expect(counts[0] >= Double(count - refused.count) && counts[1] >= Double(refused.count))
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    @Test func `A direct send of which something went out is kept, however much its app has open`() async throws {
        try await Fleet.with { fleet in
            let routes = try await fleet.pauseRoutes(providers: [.fcm])
            let dispatcher = try await fleet.start("dispatcher", ["open_sends_per_app": "1"])
            let feedback = try await fleet.startFeedback()
            let count = fleet.installation.keyspace.queueShards + 1
            for index in 0..<count {
                let token = String(repeating: "u", count: 140) + Self.token(index + 1)
                let addresses = [
                    Address(provider: .apns, token: Self.token(index + 1)), Address(provider: .fcm, token: token),
                ]
                try await fleet.send(.addresses(addresses), id: "s\(index)", lane: .express)
            }
            #expect(try await Self.refused(count, fleet).isEmpty)
            for route in routes { try await fleet.installation.streams.routes.control(route, .resume) }
            for index in 0..<count {
                #expect(try await fleet.completion(of: "s\(index)").total(.accepted) == 2)
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }

    /// Waits until each send was taken or refused, and returns those that were refused for want of room.
    private static func refused(_ count: Int, _ fleet: LocalCluster) async throws -> Set<String> {
        var refused: Set<String> = []
        try await eventually("each send was taken or refused", timeout: .seconds(60)) {
            var known = 0
            for index in 0..<count {
                if let receipt = try await fleet.receipts(of: "s\(index)").last {
                    #expect(receipt.kind == .refused && receipt.problem?.code == "too_much_open")
                    refused.insert("s\(index)")
                    known += 1
                } else if try await fleet.ledger(of: "s\(index)") != nil {
                    known += 1
                }
            }
            return known == count
        }
        return refused
    }
}
