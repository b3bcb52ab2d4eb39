import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusSimulator
import ApusStore
import ApusStreams
import ApusTestKit
import Foundation
import Testing

/// Tests a fleet whose records of devices are encrypted in Redis.
@Suite(.serialized) struct RecordEncryptionTests {
    private static let (one, other) = (String(repeating: "1f", count: 32), String(repeating: "2e", count: 32))

    private static func with(_ body: (Fleet, _ file: String) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write("records.key", Array("\(Self.one)\n".utf8))
        var configuration = LocalClusterConfiguration()
        configuration.encryptionKeyFile = file
        configuration.simulator.deadShare = DeadShare(0.2, seed: 1)
        try await Fleet.with(configuration) { fleet in
            fleet.installation.store.encryption.setKeys([Hexadecimal.decode(Self.one) ?? []])
            try await body(fleet, file)
        }
    }

    @Test func `Sends reach encrypted devices, verdicts change them, and keys are exchanged meanwhile`() async throws {
        try await Self.with { fleet, file in
            let devices = try await fleet.register(200, topics: { _ in ["news"] }, user: { "user-\($0)" })
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback()
            let (registration, _) = try await fleet.startRegistration(["janitor_interval": "1s"])
            try await fleet.send(.topic("news"), id: "wide")
            try await fleet.send(.users(["user-1"]), id: "single")
            try await eventually("both have ended, and dead tokens are pruned", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().isEmpty
            }
            let app = try AppID(Fleet.app)
            let reached = fleet.accepted(of: "wide").count
            #expect(reached > 100 && reached < devices.count)
            try await eventually("the dead are removed", timeout: .seconds(60)) {
                try await StoreCheck.run(fleet.installation.store, app).deviceCount == reached
            }

            // The new key comes below, then on top; the janitor encrypts the rest, and the old one goes.
            for keys in ["\(Self.one)\n\(Self.other)\n", "\(Self.other)\n\(Self.one)\n"] {
                try keys.write(toFile: file, atomically: true, encoding: .utf8)
                try await Task.sleep(for: .seconds(3))
            }
            try await eventually("the janitor has encrypted every record with the new key", timeout: .seconds(60)) {
                let metrics = try await registration.get("metrics").body
                let sample = "apus_registration_janitor_repairs_total{kind=\"encryption\"} "
                let line = metrics.split(separator: "\n").first { $0.hasPrefix(sample) }
                return line.flatMap { Int($0.dropFirst(sample.utf8.count)) } ?? 0 >= reached
            }
            try "\(Self.other)\n".write(toFile: file, atomically: true, encoding: .utf8)
            try await Task.sleep(for: .seconds(3))
            try await fleet.send(.topic("news"), id: "after")
            try await eventually("the send with the new key alone has ended", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().isEmpty
            }
            #expect(fleet.accepted(of: "after").count == reached)
            for service in [registration, dispatcher, feedback] { try await service.terminate() }
        }
    }

    private static func dispatcherFile(_ dispatcher: ServiceProcess) -> String { "\(dispatcher.directory)/apus.yaml" }

    @Test func `A command that has not the keys of the services writes no record in the clear`() async throws {
        try await Self.with { fleet, _ in
            let dispatcher = try await fleet.startDispatcher()
            try await eventually("the dispatcher has reported itself") {
                try await !fleet.installation.streams.processes.all().isEmpty
            }
            let token = String(repeating: "ab", count: 32)
            let order = ["device", "put", "--app", Fleet.app, "new", "--provider", "apns", "--token", token]
            let refused = try OperatorProgram.run(order + ["--redis", fleet.redis.url])
            #expect(refused.code == 1 && refused.talk.contains("with --config"), "\(refused.talk)")
            #expect(try await fleet.installation.store.get(AppID(Fleet.app), DeviceID("new")) == nil)
            let named = try OperatorProgram.run(order + ["--config", Self.dispatcherFile(dispatcher)])
            #expect(named.code == 0, "\(named.talk)")
            #expect(try await fleet.installation.store.get(AppID(Fleet.app), DeviceID("new")) != nil)
            try await dispatcher.terminate()
        }
    }

    @Test func `A dispatcher without the key sends nothing and loses nothing`() async throws {
        try await Self.with { fleet, file in
            let devices = try await fleet.register(20) { _ in ["news"] }
            try "\(Self.other)\n".write(toFile: file, atomically: true, encoding: .utf8)
            let dispatcher = try await fleet.startDispatcher(lease: "1s")
            let feedback = try await fleet.startFeedback()
            try await fleet.send(.topic("news"), id: "wide")
            try await fleet.send(.devices([devices[0].id]), id: "single")
            try await Task.sleep(for: .seconds(4))
            #expect(fleet.accepted(of: "wide").isEmpty && fleet.accepted(of: "single").isEmpty)
            #expect(try await dispatcher.metric("apus_store_records_refused_total") > 0)
            let shown = try OperatorProgram.run([
                "device", "get", "--app", Fleet.app, devices[0].id, "--config", Self.dispatcherFile(dispatcher),
            ])
            #expect(shown.code == 1 && shown.talk.contains("store.encryption_key_file"), "\(shown.talk)")
            try "\(Self.other)\n\(Self.one)\n".write(toFile: file, atomically: true, encoding: .utf8)
            try await eventually("both have ended", timeout: .seconds(60)) {
                try await fleet.unfinishedEntries().isEmpty
            }
            let accepted = fleet.accepted(of: "wide")
            #expect(accepted.values.allSatisfy { $0 == 1 })
            // The tokens of a fifth are dead.
            #expect(accepted.count > 10 && accepted.count < devices.count)
            for service in [dispatcher, feedback] { try await service.terminate() }
        }
    }
}
