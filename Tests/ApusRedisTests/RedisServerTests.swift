import ApusRedis
import ApusTestKit
import Foundation
import Testing

@Suite("Test server")
struct RedisServerTests {
    @Test("it starts at once, as a cluster that takes writes in every slot")
    func starts() async throws {
        try await RedisServer.with { server in
            for tag in Keyspace().partitionTags.prefix(16) {
                let reply = try await server.command("SET", .text(tag.key("k")), "1")
                #expect(reply.root.string == "OK")
            }
            #expect(try await server.command("ROLE").root[0].string == "master")
            #expect(server.socketPath.utf8.count <= 107)
        }
    }

    @Test("after a crash it has what it acknowledged, on the same addresses")
    func restarts() async throws {
        try await RedisServer.with(RedisServer.Options(isAppendOnly: true)) { server in
            let port = server.port
            for round in 1...3 {
                #expect(try await server.command("INCR", "n").root.integer == Int64(round))
                await server.kill()
                #expect(server.processID == nil)
                try await server.restart()
            }
            #expect(server.port == port)
            #expect(try await server.command("GET", "n").root.string == "3")
        }
    }

    @Test("nothing is left behind")
    func stops() async throws {
        let server = try await RedisServer.start()
        let pid = try #require(server.processID)
        #expect(FileManager.default.fileExists(atPath: server.socketPath))
        await server.stop()
        #expect(!FileManager.default.fileExists(atPath: server.directory))
        #expect(!Self.isRunning(pid))
        await server.stop()
    }

    @Test("it ends with the process that started it, even one that was killed")
    func parentDeath() async throws {
        let directory = try TemporaryDirectory.make("apus-note")
        defer { TemporaryDirectory.remove(directory) }
        let note = "\(directory)/note"
        await #expect(processExitsWith: .signal(SIGKILL)) { [note = note as String] in
            let server = try await RedisServer.start()
            try "\(server.processID ?? 0) \(server.directory)".write(toFile: note, atomically: true, encoding: .utf8)
            kill(getpid(), SIGKILL)
            try await Task.sleep(for: .seconds(60))
        }
        let words = try String(contentsOfFile: note, encoding: .utf8).split(separator: " ")
        let pid = try #require(Int32(words[0]))
        try await eventually("the server is gone") { !Self.isRunning(pid) }
        try await eventually("its folder is gone") { !FileManager.default.fileExists(atPath: String(words[1])) }
    }

    @Test("a setting that the server refuses is told")
    func wrongSetting() async throws {
        let error = await #expect(throws: RedisServerError.self) {
            try await RedisServer.start(RedisServer.Options(settings: ["no-such-setting": "1"]))
        }
        #expect(error?.description.contains("no-such-setting") == true)
    }

    private static func isRunning(_ pid: Int32) -> Bool {
        (try? String(contentsOfFile: "/proc/\(pid)/comm", encoding: .utf8).hasPrefix("redis-server")) == true
    }

    @Test func `A reserved port is given to nobody else`() throws {
        let held = try (0..<100).map { _ in try ReservedPort() }
        let kept = try (0..<20).map { _ in try FreePort.find() }
        #expect(Set(held.map(\.number) + kept).count == 120)
    }
}
