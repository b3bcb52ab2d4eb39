import ApusHTTP2
import Foundation
import NIOCore
import NIOPosix
import Testing

/// Against a server that others wrote: `nghttpd` of the Debian package nghttp2-server.
@Suite struct ForeignServerTests {
    private static let program = ["/usr/sbin/nghttpd", "/usr/bin/nghttpd", "/usr/local/bin/nghttpd"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    @Test(
        "an independent server gets our headers and bodies unchanged",
        .enabled(if: Self.program != nil, "nghttpd is not installed: apt install nghttp2-server"),
        .timeLimit(.minutes(2))
    )
    func nghttpd() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("apus-nghttpd-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let log = folder.appendingPathComponent("log")
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))

        let body = (0..<50_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let template = Samples.make(body: .shared(body))
        var opened: Server?
        // Between finding a free port and taking it, another may take it.
        for _ in 0..<5 where opened == nil { opened = try await self.start(folder, log, template) }
        let server = try #require(opened, "no nghttpd came up")
        defer { Server.stop(server.process, server.input) }
        let connection = server.connection

        try await connection.finished.get()
        try await connection.run { handler, sender in
            #expect(sender.answered.count == 300)
            #expect(sender.answered.values.allSatisfy { $0 == 200 })
            #expect(sender.bodies.count == 300)
            #expect(sender.bodies.values.allSatisfy { $0 == body })
            #expect(handler.streamsMax == 20)
            handler.startDraining()
        }
        #expect(try await connection.ended.get() == .drained)
        Server.stop(server.process, server.input)

        let lines = try String(decoding: Data(contentsOf: log), as: UTF8.self).split(separator: "\n")
        let paths = lines.filter { $0.hasSuffix(" :path: /3/device/" + String(repeating: "ab", count: 32)) }
        #expect(paths.count == 300)
        for tag: UInt64 in 0..<300 {
            let id = " apns-id: \(RequestID(high: 0, low: tag))"
            #expect(lines.count { $0.hasSuffix(id) } == 1)
        }
        #expect(lines.count { $0.hasSuffix(" apns-topic: com.example.app") } == 300)
    }

    private struct Server {
        let process: Process
        let input: FileHandle
        let connection: Connection

        static func stop(_ process: Process, _ input: FileHandle) {
            try? input.close()
            process.waitUntilExit()
        }
    }

    /// A server that echoes bodies and logs headers, and a connection to it; nil when its port was taken.
    private func start(
        _ folder: URL,
        _ log: URL,
        _ template: RequestTemplate,
    ) async throws -> Server? {
        let probe = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(probe.localAddress?.port)
        try await probe.close()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        // It dies with us: the shell's input ends when this process does. (nghttpd inherits a blocked SIGTERM.)
        process.arguments = try [
            "-c", #""$@" & read line; kill -9 $!"#, "sh", #require(Self.program), "-v", "--no-tls",
            "--address=127.0.0.1", "--htdocs=\(folder.path)", "--echo-upload",
            "--max-concurrent-streams=20", "\(port)",
        ]
        process.standardOutput = try FileHandle(forWritingTo: log)
        process.standardError = FileHandle.nullDevice
        let input = Pipe()
        process.standardInput = input
        try process.run()
        for _ in 0..<500 {
            if let connection = try? await Connection.open(port: port, total: 300, template: template) {
                return Server(process: process, input: input.fileHandleForWriting, connection: connection)
            }
            try await Task.sleep(for: .milliseconds(10))
        }
        Server.stop(process, input.fileHandleForWriting)
        return nil
    }
}
