import ApusLab
import ApusTestKit
import Foundation
import NIOCore
import NIOPosix
import Testing

/// Tests a registration that may have few files open.
@Suite(.serialized) struct OpenFileTests {
    private static let softLimit = 150
    private static let hardLimit = 200

    /// A folder with a program for each service that runs the real one with these limits.
    private static func programs(in folder: String) throws -> ServicePrograms {
        let programs = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
        for name in ServicePrograms.names {
            let limits = "ulimit -S -n \(Self.softLimit)\nulimit -H -n \(Self.hardLimit)\n"
            let script = "#!/bin/sh\n\(limits)exec '\(programs.appending(path: name).path())' \"$@\"\n"
            try script.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: "\(folder)/\(name)")
        }
        return try ServicePrograms(folder: folder)
    }

    private static func connect(_ port: Int) async throws -> any Channel {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: port).get()
    }

    @Test func `A service takes the connections that fit, and goes on after it was out of files`() async throws {
        let folder = try TemporaryDirectory.make("apus-files")
        defer { TemporaryDirectory.remove(folder) }
        var configuration = LocalClusterConfiguration()
        configuration.programs = try Self.programs(in: folder)
        try await Fleet.with(configuration) { fleet in
            let (registration, port) = try await fleet.startRegistration(["connections": "1000"])
            #expect(try await registration.metric("process_max_fds") == Double(Self.hardLimit))
            let warning = registration.log.split(separator: "\n").first { $0.contains("registration.connections") }
            let fits = Self.hardLimit / 4
            for (name, value) in [("setting", 1_000), ("open_files", Self.hardLimit), ("connections", fits)] {
                #expect(warning?.contains("\"\(name)\":\(value)") == true, "\(warning ?? "")")
            }

            // The admin endpoints take more than there may be files, and fewer than they may have.
            var open: [any Channel] = []
            for _ in 0..<Self.hardLimit + 40 { open.append(try await Self.connect(registration.adminPort)) }
            try await eventually("it is out of files", timeout: .seconds(60)) {
                let files = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(registration.processID)/fd")
                return files.count >= Self.hardLimit
            }
            for channel in open { try? await channel.close() }
            try await eventually("it answers again", timeout: .seconds(60)) {
                (try? await registration.get("healthz"))?.status == 200
            }
            let connection = try await HTTPConnection.connect(
                host: "127.0.0.1",
                port: port,
                on: MultiThreadedEventLoopGroup.singleton
            )
            let answer = try await connection.send(HTTPClientRequest("GET", "/openapi.json", headers: []))
            #expect(answer.status == 200)
            await connection.close()
            try await registration.terminate()
        }
    }
}
