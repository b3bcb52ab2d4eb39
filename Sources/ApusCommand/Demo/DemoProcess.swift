internal import ApusTestKit
internal import FoundationEssentials
internal import Glibc

/// A program that the demo started: it ends when asked, when its time is up, and with this process.
final class DemoProcess: Sendable {
    /// What it is called.
    let name: String
    /// Its folder, with its log; gone after `stop()`.
    let directory: String
    private let process: WatchedProcess

    /// Its process id.
    var processID: Int32 { self.process.pid }
    /// Whether it runs.
    var isRunning: Bool { self.process.isRunning }

    /// Starts a program, with its folder in `root`.
    init(_ name: String, _ arguments: [String], in root: String) async throws {
        self.name = name
        self.directory = "\(root)/\(name)"
        try FileManager.default.createDirectory(atPath: self.directory, withIntermediateDirectories: true)
        self.process = try await WatchedProcess(
            ["/usr/bin/env"] + Self.unset + arguments,
            directory: self.directory,
        )
    }

    /// What the demo configures must not be overruled by variables that are meant for another installation.
    private static var unset: [String] {
        ProcessInfo.processInfo.environment.keys.filter { $0.hasPrefix("APUS_") }.sorted().flatMap { ["-u", $0] }
    }

    /// The last lines of its log.
    var lastWords: String {
        let data = FileManager.default.contents(atPath: "\(self.directory)/log") ?? Data()
        return String(decoding: data, as: UTF8.self).split(separator: "\n").suffix(5).joined(separator: "\n")
    }

    /// Asks it to finish, and kills it when it does not in time. Not ended by cancellation.
    func stop(within patience: Duration) async {
        self.process.signal(SIGTERM)
        let deadline = ContinuousClock.now + patience
        while self.process.isRunning, ContinuousClock.now < deadline {
            await Task { try? await Task.sleep(for: .milliseconds(10)) }.value
        }
        await self.process.end(keepingDirectory: false)
    }
}
