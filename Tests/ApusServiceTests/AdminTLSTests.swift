import ApusCore
import ApusService
import ApusTLS
import ApusTestKit
import Foundation
import Testing

private let isPossible = ["openssl", "curl"].allSatisfy { name in
    FileManager.default.isExecutableFile(atPath: "/usr/bin/\(name)")
}

/// The admin endpoints with TLS: certificates by openssl, and curl as the client.
@Suite(
    .enabled(if: isPossible, "needs openssl and curl")
)
struct AdminTLSTests {
    private struct Failure: Error { let text: String }

    private struct Output {
        let status: Int32
        let text: String
    }

    /// Runs a program on a thread of its own: the service under test needs those of tasks.
    @discardableResult
    private static func run(_ program: String, _ arguments: [String]) async throws -> Output {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(with: Result { try Self.runAndWait(program, arguments) })
            }
        }
    }

    private static func runAndWait(_ program: String, _ arguments: [String]) throws -> Output {
        let process = Process()
        let said = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/\(program)")
        process.arguments = arguments
        process.standardOutput = said
        process.standardError = said
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let bytes = try said.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Output(status: process.terminationStatus, text: String(decoding: bytes, as: UTF8.self))
    }

    /// Makes an authority, and certificates that it has signed, in a folder: `NAME.pem` and `NAME.key`.
    private struct Authority {
        let folder: TemporaryFolder
        let name: String

        init(_ name: String, in folder: TemporaryFolder) async throws {
            self.folder = folder
            self.name = name
            try await self.openssl(
                ["req", "-x509", "-subj", "/CN=\(name)", "-out", self.path(name, "pem")] + self.newKey(name)
            )
        }

        func path(_ name: String, _ end: String) -> String { "\(self.folder.path)/\(name).\(end)" }

        func issue(_ name: String, usage: String) async throws {
            let request = self.path(name, "csr")
            let extensions = [
                "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "extendedKeyUsage=\(usage)",
            ]
            try await self.openssl(
                ["req", "-new", "-subj", "/CN=\(name)", "-out", request] + extensions + self.newKey(name)
            )
            try await self.openssl([
                "x509", "-req", "-in", request, "-CA", self.path(self.name, "pem"), "-CAkey",
                self.path(self.name, "key"),
                "-CAcreateserial", "-copy_extensions", "copyall", "-days", "2", "-out", self.path(name, "pem"),
            ])
        }

        private func newKey(_ name: String) -> [String] {
            ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.path(name, "key")]
        }

        private func openssl(_ arguments: [String]) async throws {
            let output = try await AdminTLSTests.run("openssl", arguments)
            guard output.status == 0 else { throw Failure(text: output.text) }
        }
    }

    /// An authority, a server's and a client's certificate, a client's of another authority, and one that has expired.
    private static func files() async throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        let authority = try await Authority("ca", in: folder)
        try await authority.issue("server", usage: "serverAuth")
        try await authority.issue("client", usage: "clientAuth")
        try await Authority("other", in: folder).issue("stranger", usage: "clientAuth")
        let now = SystemClock().now()
        let day: Int64 = 86_400_000
        let wide = CertificateValidity(from: now.advanced(byMilliseconds: -2 * day))
        let old = try CertificateAuthority(name: "old", validity: wide)
        let past = CertificateValidity(
            from: now.advanced(byMilliseconds: -2 * day),
            until: now.advanced(byMilliseconds: -day)
        )
        let expired = try old.issue(CertificateProfile(.client, commonName: "expired", validity: past))
        try folder.write("expired.pem", expired.certificateChainPEM)
        try folder.write("expired.key", expired.privateKeyPEM)
        let trusted = try String(contentsOfFile: "\(folder.path)/ca.pem", encoding: .utf8)
        try folder.write("clients.pem", trusted + old.certificatePEM)
        return folder
    }

    private static func yaml(_ folder: TemporaryFolder, clients: Bool) -> String {
        let more = clients ? ", client_ca_file: \(folder.path)/clients.pem" : ""
        return "admin: {tls: {certificate_file: \(folder.path)/server.pem, key_file: \(folder.path)/server.key\(more)}}"
    }

    /// Asks with curl, and returns its exit code and the body with the status as its last line.
    private static func ask(
        _ folder: TemporaryFolder,
        _ port: Int,
        _ path: String,
        scheme: String = "https",
        trusting authority: String = "ca",
        as client: String? = nil,
    ) async throws -> Output {
        var arguments = [
            "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", "--cacert",
            "\(folder.path)/\(authority).pem",
        ]
        if let client {
            arguments += ["--cert", "\(folder.path)/\(client).pem", "--key", "\(folder.path)/\(client).key"]
        }
        return try await Self.run("curl", arguments + ["\(scheme)://127.0.0.1:\(port)\(path)"])
    }

    @Test func `With a certificate the endpoints speak HTTPS alone`() async throws {
        let files = try await Self.files()
        try await withChassis(Self.yaml(files, clients: false)) { port, _, _ in
            let metrics = try await Self.ask(files, port, "/metrics")
            #expect(metrics.status == 0 && metrics.text.hasSuffix("\n200"), "\(metrics)")
            #expect(metrics.text.contains("apus_build_info"))
            let plain = try await Self.ask(files, port, "/metrics", scheme: "http")
            #expect(plain.status != 0 && !plain.text.contains("apus_build_info"), "\(plain)")
            let distrusted = try await Self.ask(files, port, "/metrics", trusting: "other")
            #expect(distrusted.status == 60, "\(distrusted)")
        }
    }

    @Test func `Where clients need a certificate, one without gets the status of probes and no more`() async throws {
        let files = try await Self.files()
        try await withChassis(Self.yaml(files, clients: true)) { port, _, _ in
            let metrics = try await Self.ask(files, port, "/metrics", as: "client")
            #expect(metrics.status == 0 && metrics.text.hasSuffix("\n200"), "\(metrics)")
            #expect(metrics.text.contains("apus_build_info"))
            #expect(try await Self.ask(files, port, "/nothing", as: "client").text.hasSuffix("\n404"))
            let verbose = try await Self.ask(files, port, "/readyz?verbose", as: "client")
            #expect(verbose.text.contains("\"name\":\"redis\""))

            for path in ["/metrics", "/nothing", "/scale"] {
                let answer = try await Self.ask(files, port, path)
                #expect(answer.text.hasSuffix("\n403") && answer.text.contains("client_ca_file"), "\(path) \(answer)")
                #expect(!answer.text.contains("apus_build_info"))
            }
            for path in ["/healthz", "/startupz", "/readyz", "/readyz?verbose"] {
                let answer = try await Self.ask(files, port, path)
                #expect(answer.text.hasSuffix("\n200") && !answer.text.contains("redis"), "\(path) \(answer)")
            }
            // Another authority's, one that is over, and a server's own are refused by the handshake.
            for client in ["stranger", "expired", "server"] {
                for path in ["/metrics", "/healthz"] {
                    let answer = try await Self.ask(files, port, path, as: client)
                    #expect(answer.status != 0 && answer.text == "\n000", "\(client) \(answer)")
                }
            }
        }
    }

    @Test func `A changed certificate is used for new connections, and one that cannot be used changes nothing`()
        async throws
    {
        let files = try await Self.files()
        try await withChassis(Self.yaml(files, clients: false)) { port, _, _ in
            #expect(try await Self.ask(files, port, "/healthz").status == 0)
            try files.write("server.pem", "no certificate")
            let broken = try await until {
                let answer = try await Self.ask(files, port, "/metrics").text
                return answer.contains("apus_config_last_reload_successful 0\n") ? answer : nil
            }
            #expect(broken.hasSuffix("\n200"))
            #expect(try await Self.ask(files, port, "/readyz").text.contains("admin.tls: the files cannot be used"))
            try await Authority("new", in: files).issue("server", usage: "serverAuth")
            _ = try await until {
                try await Self.ask(files, port, "/metrics", trusting: "new").text
                    .contains("apus_config_last_reload_successful 1\n") ? true : nil
            }
            #expect(try await Self.ask(files, port, "/healthz").status == 60)
        }
    }

    @Test func `Files that do not belong together are named`() async throws {
        let files = try await Self.files()
        func load(_ tls: String) throws -> ServerTLSSettings? {
            let file = try files.write("apus.yaml", "admin: {tls: {\(tls)}}")
            let source = SettingsSource(file: file, environment: [:])
            return try source.load(NoSettings.self, for: .feedback).common.admin.tls
        }
        func mistake(_ tls: String) throws -> String {
            let file = try files.write("apus.yaml", "admin: {tls: {\(tls)}}")
            do {
                _ = try SettingsSource(file: file, environment: [:]).load(NoSettings.self, for: .feedback)
                return ""
            } catch {
                return error.issues.map { "\($0.key) \($0.message)" }.joined(separator: "; ")
            }
        }
        let (certificate, key) = ("certificate_file: \(files.path)/server.pem", "key_file: \(files.path)/server.key")
        let clients = "client_ca_file: \(files.path)/clients.pem"
        #expect(try mistake(certificate) == "admin.tls.key_file is required beside certificate_file")
        #expect(try mistake(key) == "admin.tls.certificate_file is required beside key_file")
        #expect(try mistake(clients) == "admin.tls.client_ca_file needs certificate_file and key_file beside it")
        #expect(throws: Never.self) { try load("\(certificate), \(key), \(clients)")?.context(for: "admin.tls") }
        for (tls, words) in [
            ("\(certificate), key_file: \(files.path)/client.key", "not that of the first certificate"),
            ("certificate_file: \(files.path)/server.key, \(key)", "invalidCertificate"),
            ("\(certificate), \(key), client_ca_file: \(files.path)/server.key", "no authorities can be read from"),
        ] {
            let settings = try #require(try load(tls))
            let error = #expect(throws: SettingsIssue.self) { try settings.context(for: "admin.tls") }
            let text = error.map { "\($0)" } ?? ""
            #expect(text.hasPrefix("admin.tls: the files cannot be used: ") && text.contains(words), "\(text)")
        }
    }

    @Test(
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: "/usr/bin/prometheus"),
            "needs the package prometheus"
        )
    )
    func `Prometheus scrapes with its certificate, and not without`() async throws {
        let files = try await Self.files()
        try await withChassis(Self.yaml(files, clients: true)) { port, folder, _ in
            let configuration = """
                global: {scrape_interval: 1s, scrape_timeout: 1s}
                scrape_configs:
                  - job_name: with
                    scheme: https
                    tls_config: {ca_file: \(files.path)/ca.pem, cert_file: \(files.path)/client.pem, key_file: \(files.path)/client.key}
                    static_configs: [{targets: ["127.0.0.1:\(port)"]}]
                  - job_name: without
                    scheme: https
                    tls_config: {ca_file: \(files.path)/ca.pem}
                    static_configs: [{targets: ["127.0.0.1:\(port)"]}]
                """
            let own = try FreePort.find()
            let process = try await WatchedProcess(
                [
                    "/usr/bin/prometheus", "--config.file=\(try folder.write("prometheus.yml", configuration))",
                    "--storage.tsdb.path=\(folder.path)/data", "--web.listen-address=127.0.0.1:\(own)",
                ],
                directory: folder.path
            )
            let up = try await until {
                let answer = try await Self.run("curl", ["--silent", "http://127.0.0.1:\(own)/api/v1/query?query=up"])
                    .text
                let hasBoth = answer.contains("\"job\":\"with\"") && answer.contains("\"job\":\"without\"")
                return hasBoth && answer.contains("\"1\"]") ? answer : nil
            }
            let results = up.split(separator: "{\"metric\":").map(String.init)
            #expect(results.contains { $0.contains("\"job\":\"with\"") && $0.contains("\"1\"]") }, "\(up)")
            #expect(results.contains { $0.contains("\"job\":\"without\"") && $0.contains("\"0\"]") }, "\(up)")
            await process.end(keepingDirectory: true)
        }
    }
}
