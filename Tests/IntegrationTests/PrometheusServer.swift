import ApusCore
import ApusDashboards
import ApusLab
import ApusTestKit
import Foundation
import NIOPosix

/// A real Prometheus that scrapes the services of a cluster each second, with the rules, the alerts and the console page of
/// `Dashboards/`. It never outlives this process.
final class PrometheusServer: Sendable {
    static let path = "/usr/bin/prometheus"
    static let isInstalled = FileManager.default.isExecutableFile(atPath: path)

    private let process: WatchedProcess
    private let directory: String
    private let port: Int

    /// Starts it, and waits until it has scraped every service.
    static func start(_ services: [ServiceProcess], in folder: String) async throws -> PrometheusServer {
        let directory = "\(folder)/prometheus"
        for file in GeneratedFiles.all {
            let url = URL(filePath: "\(directory)/\(file.path)")
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try file.text.write(to: url, atomically: true, encoding: .utf8)
        }
        var configuration = """
            global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
            rule_files: [prometheus/rules.yml, prometheus/alerts.yml]
            scrape_configs:

            """
        for service in services {
            configuration += """
                  - job_name: apus-\(service.name)
                    static_configs: [{targets: ["127.0.0.1:\(service.adminPort)"]}]

                """
        }
        try configuration.write(toFile: "\(directory)/prometheus.yml", atomically: true, encoding: .utf8)
        let port = try FreePort.find()
        let arguments = [
            Self.path, "--config.file=\(directory)/prometheus.yml", "--storage.tsdb.path=\(directory)/data",
            "--web.listen-address=127.0.0.1:\(port)", "--web.console.templates=\(directory)/consoles",
            "--enable-feature=exemplar-storage", "--log.level=warn",
        ]
        let process = try await WatchedProcess(arguments, directory: directory)
        let server = PrometheusServer(process, directory, port)
        try await eventually("Prometheus has scraped every service", timeout: .seconds(180)) {
            guard process.isRunning else { throw PrometheusFailure(description: server.log) }
            return (try? await server.query("up == 1"))?.count == services.count
        }
        return server
    }

    private init(_ process: WatchedProcess, _ directory: String, _ port: Int) {
        self.process = process
        self.directory = directory
        self.port = port
    }

    func stop() async { await self.process.end(keepingDirectory: false) }

    var log: String { (try? String(contentsOfFile: "\(self.directory)/log", encoding: .utf8)) ?? "" }

    // MARK: Queries

    /// A page of it.
    func page(_ path: String) async throws -> (status: Int, text: String) {
        try await self.send(HTTPClientRequest("GET", path))
    }

    /// The samples of this moment: labels and value.
    func query(_ expression: String) async throws -> [(labels: JSONObject, value: Double)] {
        let result = try await self.ask("query", [("query", expression)])
        return (result["result"]?.array ?? []).compactMap { sample in
            guard let labels = sample["metric"]?.object, let text = sample["value"]?.array?.last?.string else {
                return nil
            }
            return (labels, Double(text) ?? .nan)
        }
    }

    /// The label sets of series that match.
    func series(_ selector: String) async throws -> [JSONValue] {
        try await self.ask("series", [("match[]", selector)]).array ?? []
    }

    /// The trace ids beside a histogram's buckets.
    func traces(_ selector: String) async throws -> [String] {
        let now = Date().timeIntervalSince1970
        let range = [("query", selector), ("start", "\(now - 600)"), ("end", "\(now + 60)")]
        return (try await self.ask("query_exemplars", range).array ?? []).flatMap { series in
            (series["exemplars"]?.array ?? []).compactMap { $0["labels"]?["trace_id"]?.string }
        }
    }

    private func ask(_ path: String, _ parameters: [(String, String)]) async throws -> JSONValue {
        let form = parameters.map { "\(Self.encoded($0.0))=\(Self.encoded($0.1))" }.joined(separator: "&")
        let isForm = ("content-type", "application/x-www-form-urlencoded")
        // Exemplars are asked for by GET alone in older ones.
        let order =
            path == "query_exemplars"
            ? HTTPClientRequest("GET", "/api/v1/\(path)?\(form)")
            : HTTPClientRequest("POST", "/api/v1/\(path)", headers: [isForm], body: Array(form.utf8))
        let (status, text) = try await self.send(order)
        let answer = try JSONValue(parsing: text, bytesMax: 16 << 20, depthMax: 32)
        guard status == 200, let data = answer["data"] else {
            throw PrometheusFailure(description: "\(status) \(answer["error"]?.string ?? text)")
        }
        return data
    }

    private func send(_ order: HTTPClientRequest) async throws -> (status: Int, text: String) {
        let connection = try await HTTPConnection.connect(
            host: "127.0.0.1",
            port: self.port,
            on: MultiThreadedEventLoopGroup.singleton,
        )
        do {
            let answer = try await connection.send(order)
            await connection.close()
            return (answer.status, String(decoding: answer.body, as: UTF8.self))
        } catch {
            await connection.close()
            throw error
        }
    }

    private static func encoded(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
    }
}

/// Returns the errors that Prometheus reports.
struct PrometheusFailure: Error, CustomStringConvertible {
    let description: String
}
