import ApusCore
import ApusInstallation
import ApusLab
import ApusRedis
import ApusSimulator
import ApusTLS
import ApusTestKit
import Foundation
import NIOPosix
import Testing

/// `apus doctor` at a healthy installation and at sick ones.
@Suite(.serialized) struct DoctorTests {
    private struct Finding: Hashable {
        let verdict: String
        let check: String
        let subject: String
        let detail: String
        let cure: String
    }

    private static func findings(_ answer: OperatorProgram.Answer) -> [Finding] {
        (answer.json?["findings"]?.array ?? []).map { finding in
            Finding(
                verdict: finding["verdict"]?.string ?? "",
                check: finding["check"]?.string ?? "",
                subject: finding["of"]?.string ?? "",
                detail: finding["detail"]?.string ?? "",
                cure: finding["cure"]?.string ?? "",
            )
        }
    }

    /// The configuration of a dispatcher that was started and has ended.
    private static func configuration(_ fleet: Fleet) async throws -> String {
        let dispatcher = try await fleet.startDispatcher()
        try await dispatcher.terminate()
        return "\(dispatcher.directory)/apus.yaml"
    }

    @Test func `A sound installation has no failing check, and a new fault is named with its cure`() async throws {
        try await Fleet.with(isAppendOnly: true) { fleet in
            let file = try await Self.configuration(fleet)
            let order = ["doctor", "--json", "--config", file, "--redis", fleet.redisURL]
            let well = try OperatorProgram.run(order)
            var findings = Self.findings(well)
            #expect(well.code == 0 && well.json?["failed"]?.int64 == 0, "\(findings)")
            let ok = Set(findings.filter { $0.verdict == "ok" }.map(\.check))
            #expect(
                ok == [
                    "connection", "version", "eviction", "persistence", "replication", "clients", "listpack", "clock",
                    "installation", "routes", "streams", "configuration", "credential",
                ]
            )
            // A test's server has no limit.
            // None of the services runs, and none was killed.
            let warned = findings.filter { $0.verdict == "warn" }.map(\.check)
            #expect(warned == ["memory", "services", "services", "services"])
            #expect(well.json?["ok"]?.int64 == 14 && well.json?["warnings"]?.int64 == 4)
            let credentials = findings.filter { $0.check == "credential" }
            #expect(credentials.map(\.subject) == ["\(Fleet.app)/apns/production", "\(Fleet.app)/fcm/production"])

            // For people: the same lines, and their number below.
            let text = try OperatorProgram.run(["doctor", "--config", file, "--redis", fleet.redisURL])
            #expect(text.code == 0 && text.lines.last == "14 ok, 4 warnings, 0 failed")

            // The account is of another project than the configured one, and Google refuses it there.
            let sound = try String(contentsOfFile: file, encoding: .utf8)
            let elsewhere = "\(fleet.folder)/elsewhere.yaml"
            try #require(sound.contains("project_id: \"apus-demo\""))
            try sound.replacing("\"apus-demo\"", with: "\"apus-else\"")
                .write(toFile: elsewhere, atomically: true, encoding: .utf8)
            let other = ["doctor", "--json", "--config", elsewhere, "--redis", fleet.redisURL]
            findings = Self.findings(try OperatorProgram.run(other)).filter { $0.check == "credential" }
            try #require(findings.map(\.verdict) == ["ok", "fail", "warn"])
            #expect(findings[1].cure.hasPrefix("Compare project_id apus-else with the console"))
            #expect(findings[2].detail.contains("is an account of the project apus-demo"))
            let unasked = Self.findings(try OperatorProgram.run(other + ["--offline"]))
            #expect(unasked.filter { $0.check == "credential" }.map(\.verdict) == ["ok", "ok", "warn"])

            // The file has a key, but not the one that Apple knows under that name.
            let strange = "\(fleet.folder)/strange.yaml"
            let key = "\(fleet.folder)/strange.p8"
            try PrivateKey.generate(.p256).pem.write(toFile: key, atomically: true, encoding: .utf8)
            let place = try #require(sound.firstMatch(of: /key_file: "[^"]*\.p8"/))
            try sound.replacing(place.output, with: "key_file: \"\(key)\"")
                .write(toFile: strange, atomically: true, encoding: .utf8)
            let wrong = try OperatorProgram.run(["doctor", "--json", "--config", strange, "--redis", fleet.redisURL])
            findings = Self.findings(wrong).filter { $0.check == "credential" && $0.verdict == "fail" }
            #expect(wrong.code == 1 && findings.map(\.subject) == ["\(Fleet.app)/apns/production"])
            #expect(findings.first?.detail.contains("InvalidProviderToken") == true, "\(findings)")
            #expect(findings.first?.cure.isEmpty == false, "\(findings)")

            // Nobody at the providers.
            await fleet.simulator.stop()
            let alone = try OperatorProgram.run(order)
            findings = Self.findings(alone).filter { $0.verdict == "fail" }
            #expect(alone.code == 1 && findings.map(\.check) == ["credential", "credential"])
            #expect(findings.allSatisfy { $0.cure.contains("--offline") })
            let offline = try OperatorProgram.run(order + ["--offline"])
            #expect(offline.code == 0 && offline.json?["failed"]?.int64 == 0)

            // A configuration with mistakes, and an account that is none.
            var mistaken = try String(contentsOfFile: file, encoding: .utf8)
            mistaken += "surprise: 1\nfeedback: {lease: soon}\n"
            let broken = "\(fleet.folder)/broken.yaml"
            try mistaken.write(toFile: broken, atomically: true, encoding: .utf8)
            let refused = try OperatorProgram.run(
                ["doctor", "--json", "--offline", "--config", broken, "--redis", fleet.redisURL]
            )
            findings = Self.findings(refused).filter { $0.verdict == "fail" }
            #expect(refused.code == 1 && findings.map(\.check) == ["configuration", "configuration"])
            #expect(findings.first?.subject == "all services" && findings.last?.subject == "feedback")
            #expect(findings.first?.detail.contains("surprise (broken.yaml:") == true)
        }
    }

    @Test func `Beside the Redis of another installation the configuration of this machine is not examined`()
        async throws
    {
        try await RedisServer.with { server in
            let folder = try TemporaryFolder()
            let file = try folder.write("apus.yaml", "surprise: 1\n")
            let order = ["doctor", "--json", "--offline", "--redis", server.tcpURL]
            let answer = try OperatorProgram.run(order, environment: ["APUS_CONFIG": file])
            let found = Self.findings(answer).filter { $0.check == "configuration" }
            #expect(
                found.map(\.verdict) == ["warn"] && found.first?.detail.contains("--config names it") == true,
                "\(found)"
            )
        }
    }

    @Test func `The faults of a wrongly configured Redis are reported, and nothing is changed`() async throws {
        let options = RedisServer.Options(
            settings: ["maxmemory": "100mb", "maxmemory-policy": "allkeys-lru", "maxclients": "20"]
        )
        try await RedisServer.with(options) { server in
            let answer = try OperatorProgram.run(["doctor", "--json", "--redis", server.tcpURL])
            #expect(answer.code == 1)
            let findings = Self.findings(answer)
            func of(_ check: String) -> Finding? { findings.first { $0.check == check } }
            #expect(of("eviction")?.verdict == "fail" && of("eviction")?.detail.contains("allkeys-lru") == true)
            #expect(of("eviction")?.cure.contains("noeviction") == true)
            #expect(of("memory")?.verdict == "ok")
            #expect(of("persistence")?.verdict == "warn" && of("persistence")?.cure.contains("appendonly yes") == true)
            #expect(of("installation")?.verdict == "fail" && of("installation")?.detail.contains("apus init") == true)
            #expect(of("configuration")?.verdict == "warn")
            #expect(of("connection")?.subject == "127.0.0.1:\(server.port)")
            let policy = try await server.command("CONFIG", "GET", "maxmemory-policy").root.element(1)?.string
            #expect(policy == "allkeys-lru")
            #expect(try await server.command("DBSIZE").root.integer == 0)
        }
    }

    @Test func `A missing Redis and one that refuses are distinguished`() async throws {
        let server = try await RedisServer.start()
        let url = server.tcpURL
        _ = try await server.command("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+ping")
        let limited = try OperatorProgram.run(
            ["doctor", "--json", "--redis", url.replacing("://", with: "://limited:secret@")]
        )
        #expect(limited.code == 1)
        #expect(Self.findings(limited).contains { $0.check == "connection" && $0.verdict == "warn" })
        let stranger = try OperatorProgram.run(
            ["doctor", "--json", "--redis", url.replacing("://", with: "://limited:wrong@")]
        )
        #expect(stranger.code == 1)
        let connection = Self.findings(stranger).first { $0.check == "connection" }
        #expect(connection?.verdict == "fail" && connection?.detail.contains("user and password") == true)
        #expect(!String(decoding: stranger.output, as: UTF8.self).contains("wrong@"))
        await server.stop()
        let absent = try OperatorProgram.run(["doctor", "--json", "--redis", url])
        #expect(absent.code == 1)
        #expect(
            Self.findings(absent).contains {
                $0.check == "connection" && $0.detail.contains("is it running, and does it want TLS")
            }
        )
    }
}
