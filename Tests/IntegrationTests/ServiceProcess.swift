import ApusTestKit
import Foundation
import FoundationNetworking

/// One of the three programs, running by itself.
final class ServiceProcess: Sendable {
    let process: WatchedProcess
    let directory: String
    let name: String

    /// Starts a program with a configuration and waits until it says that it is ready.
    static func start(_ name: String, configuration: String) async throws -> ServiceProcess {
        let directory = try TemporaryDirectory.make("apus-\(name)")
        let file = "\(directory)/\(name).yaml"
        try (configuration + "\nadmin: {listen: \"127.0.0.1:0\", port_file: \"\(directory)/port\"}\n")
            .write(toFile: file, atomically: true, encoding: .utf8)
        let program = Self.products.appending(path: name).path()
        let process = try await WatchedProcess([program, "--config", file], directory: directory)
        let service = ServiceProcess(process: process, directory: directory, name: name)
        do {
            try await eventually("\(name) is ready", timeout: .seconds(30)) { await service.isReady }
        } catch {
            let log = service.log
            await service.kill()
            throw ServiceProcessError(description: "\(error)\n\(log)")
        }
        return service
    }

    private init(process: WatchedProcess, directory: String, name: String) {
        self.process = process
        self.directory = directory
        self.name = name
    }

    /// Where the programs lie: beside the test bundle.
    private static var products: URL {
        URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
    }

    /// What it said so far.
    var log: String { (try? String(contentsOfFile: "\(self.directory)/log", encoding: .utf8)) ?? "" }

    private var isReady: Bool {
        get async { (try? await self.get("readyz"))?.status == 200 }
    }

    /// Asks an admin endpoint.
    func get(_ path: String, accept: String? = nil) async throws -> (status: Int, body: String) {
        let port = try String(contentsOfFile: "\(self.directory)/port", encoding: .utf8)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        guard let url = URL(string: "http://127.0.0.1:\(port)/\(path)") else { throw URLError(.badURL) }
        var request = URLRequest(url: url)
        if let accept { request.setValue(accept, forHTTPHeaderField: "Accept") }
        let (data, response) = try await URLSession.shared.data(for: request)
        return ((response as? HTTPURLResponse)?.statusCode ?? 0, String(decoding: data, as: UTF8.self))
    }

    /// `kill -9`.
    func kill() async { await self.process.end(keepingDirectory: false) }

    /// SIGTERM; waits until it has ended by itself.
    func terminate() async throws {
        self.process.signal(SIGTERM)
        try await eventually("\(self.name) ends", timeout: .seconds(30)) { !self.process.isRunning }
        await self.process.end(keepingDirectory: false)
    }
}

struct ServiceProcessError: Error, CustomStringConvertible {
    let description: String
}
