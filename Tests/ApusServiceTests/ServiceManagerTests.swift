import ApusCore
import ApusMetrics
import ApusService
import ApusTestKit
import Foundation
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization
import Testing

private struct NoMetrics: MetricSet {}

private struct Waiting: Service {
    func run() async throws { try? await gracefulShutdown() }
}

/// Passes a check once it is told to, and counts how often it was asked.
private final class ReadyCheck: Sendable {
    private let state: Mutex<(isReady: Bool, count: Int)>

    init(isReady: Bool) { self.state = Mutex((isReady, 0)) }

    var count: Int { self.state.withLock(\.count) }

    func pass() { self.state.withLock { $0.isReady = true } }

    func result() -> CheckResult {
        self.state.withLock { state in
            state.count += 1
            return state.isReady ? .ok() : .failing("not yet")
        }
    }
}

@Suite struct ServiceManagerTests {
    @Test func systemdIsNotifiedWhenTheServiceIsReadyAndWhenItStops() async throws {
        try await self.expectWords(["READY=1"], thenStopped: ["STOPPING=1"], [:])
    }

    @Test func theWatchdogIsNotifiedRepeatedlyWhileEveryLoopAnswers() async throws {
        let alive = [String](repeating: "WATCHDOG=1", count: 3)
        try await self.expectWords(alive, thenStopped: ["STOPPING=1"], ["WATCHDOG_USEC": "20000"])
        // Not to be read: nobody wants to know.
        try await self.expectWords(["READY=1"], thenStopped: ["STOPPING=1"], ["WATCHDOG_USEC": "soon"])
    }

    @Test func `A service is not reported as ready while one of its checks fails`() async throws {
        let late = ReadyCheck(isReady: false)
        try await self.with(late) { listener, _ in
            try await eventually("it is asked twice") { late.count >= 2 }
            late.pass()
            try await Self.wait(for: "READY=1", from: listener)
        }
        let never = ReadyCheck(isReady: false)
        try await self.with(never) { listener, stop in
            try await eventually("it is asked twice") { never.count >= 2 }
            await stop()
            var words: [String] = []
            while words.last != "STOPPING=1" { words.append(try await listener.next()) }
            #expect(!words.contains("READY=1"))
        }
    }

    /// Runs a service until a listener has received all of the first words, then to its end, and wants the others too.
    private func expectWords(
        _ first: [String],
        thenStopped last: [String],
        _ variables: [String: String],
    ) async throws {
        try await self.with(ReadyCheck(isReady: true), variables) { listener, stop in
            for word in first { try await Self.wait(for: word, from: listener) }
            await stop()
            for word in last { try await Self.wait(for: word, from: listener) }
        }
    }

    /// Runs a service whose words a listener receives, and stops it after `body` at the latest.
    private func with(
        _ check: ReadyCheck,
        _ variables: [String: String] = [:],
        _ body: (_ listener: DatagramListener, _ stop: () async -> Void) async throws -> Void,
    ) async throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/notify"
        let listener = try DatagramListener(path: path)
        let environment = ["APUS_ADMIN_LISTEN": "127.0.0.1:0", "NOTIFY_SOCKET": path]
            .merging(variables) { $1 }
        let live = try LiveSettings<NoSettings>(SettingsSource(file: nil, environment: environment), for: .feedback)
        let null = try #require(FileHandle(forWritingAtPath: "/dev/null"))
        let writer = LogWriter(descriptor: null.fileDescriptor)
        let service = ChassisService(
            live,
            metrics: NoMetrics.self,
            sink: LogSink(writer: writer, isJSON: true, level: .info, clock: SystemClock()),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
        ) { context in
            context.readiness.add("test") { check.result() }
            return [Waiting()]
        }
        let group = ServiceGroup(
            configuration: .init(services: [.init(service: service)], logger: Logger(label: "test"))
        )
        async let running: Void = group.run()
        try await body(listener) { await group.triggerGracefulShutdown() }
        await group.triggerGracefulShutdown()
        try await running
        withExtendedLifetime(null) {}
        withExtendedLifetime(folder) {}
    }

    /// Other words may come in between.
    private static func wait(for word: String, from listener: DatagramListener) async throws {
        for _ in 0..<1_000 where try await listener.next() == word { return }
        Issue.record("\(word) was not received")
    }
}

/// A datagram socket of the Unix kind, read on a thread of its own.
private final class DatagramListener: Sendable {
    private let descriptor: Int32

    init(path: String) throws {
        self.descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(self.descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0)
    }

    deinit { close(self.descriptor) }

    func next() async throws -> String {
        let descriptor = self.descriptor
        return try await NIOThreadPool.singleton.runIfActive {
            var bytes = [UInt8](repeating: 0, count: 256)
            let count = recv(descriptor, &bytes, bytes.count, 0)
            return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        }
    }
}
