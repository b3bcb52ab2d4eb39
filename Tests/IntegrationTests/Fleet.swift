import ApusCore
import ApusInstallation
import ApusLab
import ApusSimulator
import ApusStreams
import ApusTestKit
import Foundation

/// The cluster, in the words of these tests.
typealias Fleet = LocalCluster

extension LocalCluster {
    static func with(
        dead: Double = 0,
        faults: FaultPlan = FaultPlan(),
        apps: [SimulatedApp] = [.demo],
        isAppendOnly: Bool = false,
        hasWebPush: Bool = false,
        _ body: (LocalCluster) async throws -> Void,
    ) async throws {
        var configuration = LocalClusterConfiguration()
        configuration.redis.isAppendOnly = isAppendOnly
        configuration.hasWebPush = hasWebPush
        configuration.simulator.deadShare = DeadShare(dead, seed: 1)
        configuration.simulator.faults = faults
        configuration.simulator.apps = apps
        try await LocalCluster.with(configuration) { try await body($0) }
    }

    /// A simulator in the place of Apple's sandbox beside that of production.
    static func withSandbox(
        _ body: (_ fleet: LocalCluster, _ sandbox: Simulator) async throws -> Void
    ) async throws {
        try await Self.with { fleet in
            var configuration = SimulatorConfiguration()
            configuration.environment = .sandbox
            configuration.fcmPort = nil
            configuration.controlPort = nil
            let sandbox = try await Simulator.start(configuration, beside: fleet.simulator)
            do {
                try await body(fleet, sandbox)
            } catch {
                await sandbox.stop()
                throw error
            }
            await sandbox.stop()
        }
    }

    /// Makes retries due once a second: sixteen attempts must not be over before the provider is back.
    func makeRetriesDueSlowly() async throws {
        try await self.makeRetriesDue()
        try await Task.sleep(for: .seconds(1))
    }

    func startDispatcher(lease: String) async throws -> ServiceProcess {
        try await self.startDispatcher(["lease": lease])
    }

    func startFeedback(lease: String) async throws -> ServiceProcess {
        try await self.startFeedback(["lease": lease])
    }

    /// Returns what the simulator accepted for a send, by token in the ledger's form, with the number of times.
    func accepted(of send: String) -> [String: Int] {
        var accepted: [String: Int] = [:]
        for (key, count) in self.simulator.ledger.snapshot.accepted where key.send == send {
            accepted[key.token] = count
        }
        return accepted
    }

    /// The operator's program: its exit code and the JSON that it wrote.
    func apus(_ arguments: String...) throws -> (code: Int32, json: [String: Any]) { try self.apus(arguments) }

    /// The operator's program: its exit code and the JSON that it wrote.
    ///
    /// - Parameter needsRedis: false for a command that has no option `--redis`.
    func apus(_ arguments: [String], needsRedis: Bool = true) throws -> (code: Int32, json: [String: Any]) {
        let process = Process()
        process.executableURL = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: "apus")
        process.arguments = arguments + ["--json"] + (needsRedis ? ["--redis", self.redis.url] : [])
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        let json = try? JSONSerialization.jsonObject(with: bytes) as? [String: Any]
        return (process.terminationStatus, json ?? [:])
    }
}
