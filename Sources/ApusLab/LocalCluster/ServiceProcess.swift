internal import ApusTestKit
internal import FoundationEssentials
internal import Glibc
internal import NIOPosix

/// Runs one of the three services as a process of its own. It never outlives this process.
package final class ServiceProcess: Sendable {
    /// The longest time until a service is ready, or has ended on request: a loaded machine is slow.
    package static let patience = Duration.seconds(60)

    /// The service's name: `dispatcher`, `feedback` or `registration`.
    package let name: String
    /// The folder of its configuration and log.
    package let directory: String
    private let process: WatchedProcess

    /// Starts a program and waits until it reports that it is ready.
    ///
    /// - Parameters:
    ///   - program: the path of the program.
    ///   - directory: its folder, created if necessary and removed with the cluster.
    ///   - sharedFile: the file of its configuration that other services read, too; nil for one in its folder.
    ///   - configuration: the configuration without the admin endpoint, which is written unless a shared file is there.
    ///   - adminPort: the admin port; 0 for a free one.
    static func start(
        _ name: String,
        program: String,
        directory: String,
        sharedFile: String?,
        configuration: String,
        adminPort: Int,
    ) async throws -> ServiceProcess {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let file = sharedFile ?? "\(directory)/apus.yaml"
        let (listen, portFile) = ("127.0.0.1:\(adminPort)", "\(directory)/admin")
        var environment: [String] = []
        if sharedFile != nil {
            environment = ["APUS_ADMIN_LISTEN=\(listen)", "APUS_ADMIN_PORT_FILE=\(portFile)"]
            if !FileManager.default.fileExists(atPath: file) { try Self.write(configuration, to: file) }
        } else {
            try Self.write("\(configuration)admin: {listen: \"\(listen)\", port_file: \"\(portFile)\"}\n", to: file)
        }
        let arguments = ["/usr/bin/env"] + Self.unset + environment + [program, "--config", file]
        let process = try await WatchedProcess(arguments, directory: directory)
        let service = ServiceProcess(name, directory, process)
        do {
            let deadline = ContinuousClock.now + Self.patience
            while !(await service.isReady) {
                try service.checkIsRunning()
                guard ContinuousClock.now < deadline else {
                    throw LocalClusterError("\(name) is not ready. The end of its log:\n\(service.logTail)")
                }
                try await Task.sleep(for: .milliseconds(10))
            }
        } catch {
            await service.kill()
            throw error
        }
        return service
    }

    private static func write(_ text: String, to file: String) throws {
        try Data(text.utf8).write(to: URL(filePath: file))
    }

    private init(_ name: String, _ directory: String, _ process: WatchedProcess) {
        self.name = name
        self.directory = directory
        self.process = process
    }

    /// The options of `env` that remove variables for another installation, which would override the file.
    static var unset: [String] {
        ProcessInfo.processInfo.environment.keys.filter { $0.hasPrefix("APUS_") }.sorted().flatMap { ["-u", $0] }
    }

    // MARK: Observation

    /// The process id.
    package var processID: Int32 { self.process.pid }
    /// True while the process runs.
    package var isRunning: Bool { self.process.isRunning }

    /// The log so far.
    package var log: String {
        String(decoding: FileManager.default.contents(atPath: "\(self.directory)/log") ?? Data(), as: UTF8.self)
    }

    /// The last lines of the log.
    package var logTail: String { self.log.split(separator: "\n").suffix(5).joined(separator: "\n") }

    /// Throws when the process ended by itself.
    package func checkIsRunning() throws(LocalClusterError) {
        guard !self.isRunning else { return }
        throw LocalClusterError("\(self.name) ended by itself. The end of its log:\n\(self.logTail)")
    }

    /// The port of the admin endpoint; 0 while there is none.
    package var adminPort: Int { Self.port(in: "\(self.directory)/admin") }

    /// Returns a port that a service wrote into a file; 0 while there is none.
    static func port(in file: String) -> Int {
        let text = String(decoding: FileManager.default.contents(atPath: file) ?? Data(), as: UTF8.self)
        return Int(text.prefix { $0.isNumber }) ?? 0
    }

    private var isReady: Bool {
        get async { (try? await self.get("readyz"))?.status == 200 }
    }

    /// Sends a request to the admin endpoint.
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

    /// Returns the sum of a metric's samples.
    ///
    /// - Parameter labels: what the samples' labels must contain, such as `outcome="dns"`.
    package func metric(_ name: String, _ labels: String...) async throws -> Double {
        try await self.get("metrics").body.split(separator: "\n")
            .filter { $0.hasPrefix(name) && ($0.dropFirst(name.utf8.count).first.map { "{ ".contains($0) } ?? false) }
            .filter { sample in labels.allSatisfy { sample.contains($0) } }
            .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }
            .reduce(0, +)
    }

    // MARK: Fault injection

    /// Kills the process with `kill -9` and waits until it is gone.
    package func kill() async {
        self.process.signal(SIGKILL)
        await self.process.end(keepingDirectory: true)
    }

    /// Sends SIGHUP: the service reads its configuration and the files named there again.
    package func reload() { self.process.signal(SIGHUP) }

    /// Sends SIGSTOP: the service stops running, and keeps its connections.
    package func freeze() { self.process.signal(SIGSTOP) }

    /// Sends SIGCONT: the service continues.
    package func thaw() { self.process.signal(SIGCONT) }

    /// Sends SIGTERM and waits until the service has ended by itself.
    ///
    /// - Throws: when it does not end in time; then it is killed.
    package func terminate() async throws {
        self.process.signal(SIGTERM)
        let deadline = ContinuousClock.now + Self.patience
        while self.process.isRunning, ContinuousClock.now < deadline {
            // Cancellation does not end the wait: cleaning up takes a moment.
            await Task { try? await Task.sleep(for: .milliseconds(5)) }.value
        }
        let isOver = !self.process.isRunning
        await self.kill()
        guard isOver else {
            throw LocalClusterError("\(self.name) did not end. The end of its log:\n\(self.logTail)")
        }
    }
}
