internal import ApusTestKit
internal import FoundationEssentials
internal import Glibc
internal import NIOPosix

/// One of the three services as a process of its own. It never outlives this process.
package final class ServiceProcess: Sendable {
    /// The longest that a service may take to become ready, or to end when it is asked to: a loaded machine is slow.
    package static let patience = Duration.seconds(60)

    /// `dispatcher`, `feedback` or `registration`.
    package let name: String
    /// Its folder, with its configuration and its log.
    package let directory: String
    private let process: WatchedProcess

    /// Starts a program and waits until it says that it is ready.
    ///
    /// - Parameters:
    ///   - program: its path.
    ///   - directory: made if need be; what is in it goes with the cluster.
    ///   - configuration: without the admin endpoint.
    ///   - adminPort: 0: any that is free.
    static func start(
        _ name: String,
        program: String,
        directory: String,
        configuration: String,
        adminPort: Int,
    ) async throws -> ServiceProcess {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let file = "\(directory)/apus.yaml"
        let admin = "admin: {listen: \"127.0.0.1:\(adminPort)\", port_file: \"\(directory)/admin\"}\n"
        try Data((configuration + admin).utf8).write(to: URL(filePath: file))
        let arguments = ["/usr/bin/env"] + Self.unset + [program, "--config", file]
        let process = try await WatchedProcess(arguments, directory: directory)
        let service = ServiceProcess(name, directory, process)
        do {
            let deadline = ContinuousClock.now + Self.patience
            while !(await service.isReady) {
                try service.checkIsRunning()
                guard ContinuousClock.now < deadline else {
                    throw LocalClusterError("\(name) is not ready. The end of its log:\n\(service.lastWords)")
                }
                try await Task.sleep(for: .milliseconds(10))
            }
        } catch {
            await service.kill()
            throw error
        }
        return service
    }

    private init(_ name: String, _ directory: String, _ process: WatchedProcess) {
        self.name = name
        self.directory = directory
        self.process = process
    }

    /// Options of `env` that remove variables meant for another installation, which would overrule the file.
    private static var unset: [String] {
        ProcessInfo.processInfo.environment.keys.filter { $0.hasPrefix("APUS_") }.sorted().flatMap { ["-u", $0] }
    }

    // MARK: Looking

    /// Its process id.
    package var processID: Int32 { self.process.pid }
    /// True when it runs.
    package var isRunning: Bool { self.process.isRunning }

    /// Its log so far.
    package var log: String {
        String(decoding: FileManager.default.contents(atPath: "\(self.directory)/log") ?? Data(), as: UTF8.self)
    }

    /// The last lines of its log.
    package var lastWords: String { self.log.split(separator: "\n").suffix(5).joined(separator: "\n") }

    /// Complains when it ended by itself.
    package func checkIsRunning() throws(LocalClusterError) {
        guard !self.isRunning else { return }
        throw LocalClusterError("\(self.name) ended by itself. The end of its log:\n\(self.lastWords)")
    }

    /// The port of its admin endpoint; 0 while it has none.
    package var adminPort: Int { Self.port(in: "\(self.directory)/admin") }

    /// A port that a service wrote into a file; 0 while there is none.
    static func port(in file: String) -> Int {
        let text = String(decoding: FileManager.default.contents(atPath: file) ?? Data(), as: UTF8.self)
        return Int(text.prefix { $0.isNumber }) ?? 0
    }

    private var isReady: Bool {
        get async { (try? await self.get("readyz"))?.status == 200 }
    }

    /// Asks an admin endpoint.
    package func get(_ path: String, accept: String? = nil) async throws -> (status: Int, body: String) {
        let connection = try await HTTPConnection.connect(
            host: "127.0.0.1",
            port: self.adminPort,
            on: MultiThreadedEventLoopGroup.singleton,
        )
        do {
            let headers = accept.map { [("accept", $0)] } ?? []
            let answer = try await connection.send(HTTPClientRequest("GET", "/\(path)", headers: headers))
            await connection.close()
            return (answer.status, String(decoding: answer.body, as: UTF8.self))
        } catch {
            await connection.close()
            throw error
        }
    }

    /// The sum of all samples of a metric, over its labels.
    package func metric(_ name: String) async throws -> Double {
        try await self.get("metrics").body.split(separator: "\n")
            .filter { $0.hasPrefix(name) && ($0.dropFirst(name.utf8.count).first.map { "{ ".contains($0) } ?? false) }
            .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }
            .reduce(0, +)
    }

    // MARK: Harming

    /// `kill -9`; waits until it is gone.
    package func kill() async {
        self.process.signal(SIGKILL)
        await self.process.end(keepingDirectory: true)
    }

    /// SIGHUP: it reads its configuration and the files named there again.
    package func reload() { self.process.signal(SIGHUP) }

    /// SIGSTOP: it does nothing more, and keeps its connections.
    package func freeze() { self.process.signal(SIGSTOP) }

    /// SIGCONT: it goes on where it was.
    package func thaw() { self.process.signal(SIGCONT) }

    /// SIGTERM; waits until it has ended by itself.
    ///
    /// - Throws: when it does not in time; then it is killed.
    package func terminate() async throws {
        self.process.signal(SIGTERM)
        let deadline = ContinuousClock.now + Self.patience
        while self.process.isRunning, ContinuousClock.now < deadline {
            // Not ended by cancellation: cleaning up takes a moment.
            await Task { try? await Task.sleep(for: .milliseconds(5)) }.value
        }
        let isOver = !self.process.isRunning
        await self.kill()
        guard isOver else {
            throw LocalClusterError("\(self.name) did not end. The end of its log:\n\(self.lastWords)")
        }
    }
}
