import ApusCore
import ApusSimulator
import ApusTLS
import Foundation
import Testing

/// Clients that we did not write: nghttp and curl, with the files that the simulator writes.
@Suite struct ForeignClientTests {
    private static let isInstalled = ["nghttp", "curl", "h2load"].allSatisfy { name in
        FileManager.default.isExecutableFile(atPath: "/usr/bin/\(name)")
    }

    private static let now = SystemClock().now().seconds

    private func run(_ arguments: [String]) async throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = arguments
        process.standardOutput = output
        process.standardError = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: bytes, as: UTF8.self)
    }

    private func withFolder(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apus-\(UUID().uuidString)").path()
        try await body(folder)
        try FileManager.default.removeItem(atPath: folder)
    }

    /// A JWT by the key file, as the openssl command would make one.
    private func jwt(_ files: SimulatorCredentials) throws -> String {
        let path = try #require(files.apps[0].keyFile)
        let key = try PrivateKey(pem: String(contentsOfFile: path, encoding: .utf8))
        return try JWS.sign(
            header: #"{"alg":"ES256","kid":"APUSKEY001"}"#,
            payload: #"{"iss":"APUSTEAM01","iat":\#(Self.now)}"#,
            with: .privateKey(key),
        )
    }

    @Test(.enabled(if: Self.isInstalled), arguments: [false, true])
    func nghttpAndCurlAreServed(_ isFast: Bool) async throws {
        try await withSimulator(configured { $0.isFast = isFast }) { simulator in
            try await self.withFolder { folder in
                let files = try simulator.writeCredentials(to: folder)
                let body = folder + "/body.json"
                try #"{"aps":{"alert":"hello"},"apus.send":"s1"}"#.write(
                    toFile: body,
                    atomically: true,
                    encoding: .utf8,
                )
                let url = "https://localhost:\(try #require(simulator.addresses.apnsPort))/3/device/00ff"
                let headers = [
                    "authorization: bearer \(try self.jwt(files))", "apns-topic: example.apus.demo",
                    "apns-push-type: alert", "apns-id: 01234567-89ab-cdef-0123-456789abcdef",
                ].flatMap { ["-H", $0] }
                let nghttp = try await self.run(["nghttp", "-v", "-d", body] + headers + [url])
                #expect(nghttp.contains(":status: 200"), "\(nghttp)")
                let curl = try await self.run(
                    ["curl", "--http2", "-s", "-i", "--cacert", files.authorityFile, "-d", "@\(body)"] + headers + [url]
                )
                #expect(curl.hasPrefix("HTTP/2 200"), "\(curl)")
                let entries = simulator.ledger.snapshot.entries
                #expect(entries.map(\.token) == ["00ff", "00ff"])
                #expect(entries.allSatisfy { $0.send == "s1" && $0.id == "01234567-89ab-cdef-0123-456789abcdef" })
            }
        }
    }

    /// HPACK as nghttp2's command codes it: many streams at once, all tables in use.
    @Test(.enabled(if: Self.isInstalled))
    func h2loadIsServedFast() async throws {
        try await withSimulator(configured { $0.isFast = true }) { simulator in
            try await self.withFolder { folder in
                try simulator.writeCredentials(to: folder)
                let token = String(repeating: "ab", count: 32)
                let url = "https://127.0.0.1:\(try #require(simulator.addresses.apnsPort))/3/device/\(token)"
                let output = try await self.run([
                    "h2load", "-n", "5000", "-c", "2", "-m", "50", "-d", folder + "/ca.pem", url,
                ])
                #expect(output.contains("5000 succeeded"), "\(output)")
                let accepted = simulator.ledger.snapshot.accepted
                #expect(accepted == [SendAndToken(send: "", token: token): 5_000])
            }
        }
    }

    @Test func whatIsWrittenIsComplete() async throws {
        try await withSimulator { simulator in
            try await self.withFolder { folder in
                let second = SimulatedApp(name: "web", bundleID: nil, projectID: "apus-web")
                let files = try simulator.writeCredentials(to: folder, apps: [second])
                #expect(files.apps.map(\.app.name) == ["demo", "web"])
                #expect(files.apps[1].keyFile == nil)
                let manager = FileManager.default
                for path in [files.apps[0].keyFile, files.apps[0].serviceAccountFile, files.apps[1].serviceAccountFile]
                {
                    let attributes = try manager.attributesOfItem(atPath: try #require(path))
                    #expect(attributes[.posixPermissions] as? Int == 0o600)
                }
                let text = try String(contentsOfFile: files.portsFile, encoding: .utf8)
                let ports = try JSONValue(parsing: text, bytesMax: 10_000)
                #expect(ports["apns_port"]?.int64 == simulator.addresses.apnsPort.map(Int64.init))
                #expect(ports["ca_file"]?.string == files.authorityFile)
                #expect(ports["apps"]?.array?.count == 2)
                #expect(ports["apps"]?.array?[0]["key_id"]?.string == "APUSKEY001")
                let account = try String(
                    contentsOfFile: try #require(files.apps[1].serviceAccountFile),
                    encoding: .utf8
                )
                let json = try JSONValue(parsing: account, bytesMax: 10_000)
                #expect(json["project_id"]?.string == "apus-web")
                #expect(json["token_uri"]?.string == simulator.addresses.tokenURI)
            }
        }
    }
}
