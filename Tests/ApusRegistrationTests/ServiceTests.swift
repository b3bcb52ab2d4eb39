import ApusCore
import ApusMessages
import ApusRegistration
import ApusService
import ApusStore
import ApusTLS
import ApusTestKit
import Foundation
import NIOCore
import NIOPosix
import Testing

@Suite struct ServiceTests {
    @Test func aThousandRegistrationsAtOnce() async throws {
        try await Fixture.with { fixture in
            let statuses = try await withThrowingTaskGroup(of: [Int].self) { group in
                for lane in 0..<50 {
                    group.addTask {
                        let connection = try await fixture.connect()
                        // Pipelined: all are on the wire before the first answer comes.
                        let statuses = try await withThrowingTaskGroup(of: Int.self) { requests in
                            for number in 0..<20 {
                                let id = lane * 20 + number
                                requests.addTask {
                                    try await connection.ask(
                                        "PUT",
                                        Fixture.path("d\(id)"),
                                        [
                                            ("authorization", "Bearer \(Fixture.shopKey)"),
                                            ("content-type", "application/json"),
                                        ],
                                        body: Array(
                                            #"{"provider":"fcm","token":"t\#(id)","user":"u\#(id % 100)","topics":["all"]}"#
                                                .utf8
                                        ),
                                    ).status
                                }
                            }
                            return try await requests.reduce(into: []) { $0.append($1) }
                        }
                        await connection.close()
                        return statuses
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(statuses.count == 1_000)
            #expect(statuses.allSatisfy { $0 == 201 })
            let shop = try AppID("shop")
            for id in stride(from: 0, to: 1_000, by: 37) {
                #expect(try await fixture.store.get(shop, try DeviceID("d\(id)"))?.record.user == "u\(id % 100)")
            }
            #expect(try await fixture.store.devices(shop, ofUser: try UserID("u7")).count == 10)
            let metrics = try await fixture.metrics
            let put = "route=\"/v1/apps/{app}/devices/{device}\",method=\"PUT\""
            #expect(metrics.contains("apus_http_requests_total{\(put),code=\"2xx\"} 1000\n"))
            #expect(metrics.contains("change=\"created\",source=\"http\"} 1000\n"))
            #expect(metrics.contains("apus_http_requests_inflight 0\n"))
            // Not one line for each device.
            #expect(fixture.log.split(separator: "\n").filter { !$0.contains("\"debug\"") }.count < 20)
        }
    }

    @Test func theSameDeviceFromManySidesIsOneDevice() async throws {
        try await Fixture.with { fixture in
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for side in 0..<40 {
                    group.addTask {
                        try await fixture.ask(
                            "PUT",
                            Fixture.path("one"),
                            #"{"provider":"fcm","token":"t\#(side % 4)","user":"u\#(side % 3)"}"#
                        ).status
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.allSatisfy { $0 == 201 || $0 == 200 || $0 == 503 }, "\(statuses)")
            #expect(statuses.contains(201), "\(statuses)")
            let shop = try AppID("shop")
            let device = try #require(try await fixture.store.get(shop, try DeviceID("one")))
            for user in ["u0", "u1", "u2"] {
                let expected = device.record.user == user ? ["one"] : []
                #expect(try await fixture.store.devices(shop, ofUser: try UserID(user)).map(\.id) == expected)
            }
        }
    }

    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/promtool"), "needs the package prometheus")
    )
    func promtoolFindsNothingToSayOfALiveService() async throws {
        try await Fixture.with { fixture in
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 404)
            try fixture.folder.write("metrics", try await fixture.metrics)
            let promtool = Process()
            let said = Pipe()
            promtool.executableURL = URL(filePath: "/usr/bin/promtool")
            promtool.arguments = ["check", "metrics"]
            promtool.standardInput = FileHandle(forReadingAtPath: "\(fixture.folder.path)/metrics")
            promtool.standardOutput = said
            promtool.standardError = said
            try promtool.run()
            let words = String(decoding: try said.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            promtool.waitUntilExit()
            #expect(words == "")
            #expect(promtool.terminationStatus == 0)
        }
    }

    @Test func httpsIsSpokenWhenThereIsACertificateAndANewOneIsTakenOver() async throws {
        let validity = CertificateValidity(from: SystemClock().now())
        let first = try CertificateAuthority(name: "first", validity: validity)
        let second = try CertificateAuthority(name: "second", validity: validity)
        @Sendable func write(_ authority: CertificateAuthority, _ folder: TemporaryFolder) throws {
            let identity = try authority.issue(
                CertificateProfile(.server, commonName: "api", ipAddresses: ["127.0.0.1"], validity: validity)
            )
            try folder.write("certificate.pem", identity.certificateChainPEM)
            try folder.write("key.pem", identity.privateKeyPEM)
        }
        let prepare = { (folder: TemporaryFolder) in try write(first, folder) }
        @Sendable func status(_ fixture: Fixture, trusting authority: CertificateAuthority) async throws -> Int {
            let context = try TLSContext.client(trust: .pem(authority.certificatePEM), alpn: ["http/1.1"])
            let connection = try await HTTPConnection.open(port: fixture.port) { channel in
                try channel.pipeline.syncOperations.addHandler(
                    try TLSHandler(client: context, serverName: "127.0.0.1")
                )
            }
            let answer = try await connection.ask(
                "PUT",
                Fixture.path("d1"),
                [("authorization", "Bearer \(Fixture.shopKey)"), ("content-type", "application/json")],
                body: Array(#"{"provider":"fcm","token":"t1"}"#.utf8),
            )
            await connection.close()
            return answer.status
        }
        try await Fixture.with(tls: true, prepare: prepare) { fixture in
            #expect(try await status(fixture, trusting: first) == 201)
            await #expect(throws: (any Error).self) { try await status(fixture, trusting: second) }
            try write(second, fixture.folder)
            try await eventually("the new certificate is shown") {
                (try? await status(fixture, trusting: second)) == 200
            }
        }
    }

    @Test func keysAreReadAgainWhenTheConfigurationChanges() async throws {
        try await Fixture.with { fixture in
            #expect(try await fixture.ask("GET", Fixture.path("d1"), key: "new-key").status == 401)
            let file = "\(fixture.folder.path)/apus.yaml"
            let old = try String(contentsOfFile: file, encoding: .utf8)
            let digest = Hexadecimal.encode(SHA256.hash(utf8: Fixture.shopKey))
            let new = Hexadecimal.encode(SHA256.hash(utf8: "new-key"))
            try fixture.folder.write("apus.yaml", old.replacing(digest, with: new))
            try await eventually("the new key is known") {
                try await fixture.ask("GET", Fixture.path("d1"), key: "new-key").status == 404
            }
            #expect(try await fixture.ask("GET", Fixture.path("d1")).status == 401)
        }
    }

    @Test func `Keys that change while the service waits for Redis are used once it has begun`() async throws {
        let digest = Hexadecimal.encode(SHA256.hash(utf8: Fixture.shopKey))
        let new = Hexadecimal.encode(SHA256.hash(utf8: "new-key"))
        let change = { @Sendable (folder: TemporaryFolder) async throws in
            func logs(_ text: String) -> Bool {
                ((try? String(contentsOfFile: "\(folder.path)/log", encoding: .utf8)) ?? "").contains(text)
            }
            try await eventually("the service waits") { logs("waiting for Redis") }
            let old = try String(contentsOfFile: "\(folder.path)/apus.yaml", encoding: .utf8)
            try folder.write("apus.yaml", old.replacing(digest, with: new))
            try await eventually("the new file is read") { logs("configuration taken over") }
        }
        try await Fixture.with(redis: RedisServer.Options(isAppendOnly: true), whileAway: change) { fixture in
            try await eventually("the new key is known") {
                try await fixture.ask("GET", Fixture.path("d1"), key: "new-key").status == 404
            }
            try await eventually("the old key is refused") {
                try await fixture.ask("GET", Fixture.path("d1")).status == 401
            }
        }
    }

    @Test func whatIsOnTheWireIsAnsweredBeforeTheEnd() async throws {
        let program = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
            .appending(path: "apus-registration")
        try #require(FileManager.default.isExecutableFile(atPath: program.path))
        try await Fixture.with { fixture in
            let folder = try TemporaryFolder()
            let process = Process()
            process.executableURL = program
            process.arguments = ["--config", try Fixture.configuration(fixture.redis, folder, "")]
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            defer { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }
            let port = try await Fixture.port(folder, "port")
            let idle = try await HTTPConnection.open(port: port)
            let busy = try await HTTPConnection.open(port: port)
            let admin = try await HTTPConnection.open(port: try await Fixture.port(folder, "admin-port"))
            let key = ("authorization", "Bearer \(Fixture.shopKey)")
            #expect(try await idle.ask("GET", Fixture.path("d1"), [key]).status == 404)
            #expect(try await busy.ask("GET", Fixture.path("d1"), [key]).status == 404)
            #expect(try await admin.ask("GET", "/metrics").text.contains("apus_http_requests_inflight 0\n"))
            // From here on as little as can be: Redis answers within its time or the request fails.
            fixture.redis.suspend()
            async let answer = busy.ask(
                "PUT",
                Fixture.path("d1"),
                [key, ("content-type", "application/json")],
                body: Array(#"{"provider":"fcm","token":"t1"}"#.utf8),
            )
            try await eventually("the request is in hand") {
                try await admin.ask("GET", "/metrics").text.contains("apus_http_requests_inflight 1\n")
            }
            process.terminate()
            try await idle.waitUntilClosed()
            fixture.redis.resume()
            #expect(try await answer.status == 201)
            try await busy.waitUntilClosed()
            await admin.close()
            try await NIOThreadPool.singleton.runIfActive { process.waitUntilExit() }
            #expect(process.terminationReason == .exit)
            #expect(process.terminationStatus == 0)
            #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/port"))
        }
    }
}
