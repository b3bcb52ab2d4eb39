import ApusCore
import ApusMetrics
import ApusTestKit
import Foundation
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization
import Testing

@testable import ApusService

private struct ShopMetrics: MetricSet {
    let sends = Counter("shop_sends_total", "Sends.")
}

/// Counts on a shard of an event loop, and stops when it is told to.
private struct Worker: Service {
    let context: ServiceContext<NoSettings, ShopMetrics>

    func run() async throws {
        let loop = self.context.eventLoopGroup.next()
        let shard = self.context.registry.makeShard(on: loop)
        let sends = self.context.metrics.sends
        try await loop.submit { shard.value[sends] += 3 }.get()
        try? await gracefulShutdown()
        try await loop.submit { shard.value[sends] += 1 }.get()
    }
}

final class Fault: Sendable {
    private let reason = Mutex<String?>(nil)

    func set(_ reason: String?) { self.reason.withLock { $0 = reason } }

    var result: CheckResult {
        guard let reason = self.reason.withLock({ $0 }) else { return .ok("version 7.0.15") }
        return .failing(reason)
    }
}

/// Runs a chassis on a free port for the length of a test.
func withChassis(
    _ yaml: String = "",
    fault: Fault = Fault(),
    prepare: (LiveSettings<NoSettings>) -> Void = { _ in },
    _ body: (_ port: Int, _ folder: TemporaryFolder, _ reload: @Sendable () -> Void) async throws -> Void,
) async throws {
    let folder = try TemporaryFolder()
    let file = try folder.write("apus.yaml", yaml)
    let environment = ["APUS_ADMIN_LISTEN": "127.0.0.1:0", "APUS_ADMIN_PORT_FILE": "\(folder.path)/port"]
    let live = try LiveSettings<NoSettings>(SettingsSource(file: file, environment: environment), for: .feedback)
    prepare(live)
    let null = try #require(FileHandle(forWritingAtPath: "/dev/null"))
    let sink = LogSink(
        writer: LogWriter(descriptor: null.fileDescriptor),
        isJSON: true,
        level: .info,
        clock: SystemClock(),
    )
    let service = ChassisService(
        live,
        metrics: ShopMetrics.self,
        sink: sink,
        eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
        pollInterval: .milliseconds(20),
    ) { context in
        context.readiness.add("redis") { fault.result }
        context.readiness.add("providers") { .ok() }
        return [Worker(context: context)]
    }
    let group = ServiceGroup(configuration: .init(services: [.init(service: service)], logger: Logger(label: "test")))
    try await withThrowingTaskGroup(of: Void.self) { tasks in
        tasks.addTask { try await group.run() }
        let port = try await until {
            Int((try? String(contentsOfFile: "\(folder.path)/port", encoding: .utf8))?.dropLast() ?? "")
        }
        try await body(port, folder) { service.askForReload() }
        await group.triggerGracefulShutdown()
        try await tasks.waitForAll()
        #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/port"))
    }
    withExtendedLifetime(null) {}
}

private struct Late: Error {}

/// Asks again until there is a value; a minute at most.
func until<Value>(_ question: () async throws -> Value?) async throws -> Value {
    let end = ContinuousClock.now + .seconds(60)
    while ContinuousClock.now < end {
        if let value = try await question() { return value }
        try await Task.sleep(for: .milliseconds(5))
    }
    throw Late()
}

@Suite struct ChassisServiceTests {
    @Test func metricsComeInBothFormsAndWithoutABody() async throws {
        try await withChassis { port, _, _ in
            let plain = try await until {
                let answer = try await PlainHTTP.ask(port: port, "/metrics")
                return answer.body.contains("shop_sends_total 3\n") ? answer : nil
            }
            #expect(plain.status == 200)
            #expect(plain.head.lowercased().contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"))
            #expect(plain.body.contains("apus_build_info{service=\"apus-feedback\",version=\""))
            #expect(plain.body.contains("apus_draining 0\n"))
            #expect(plain.body.contains("apus_config_last_reload_successful 1\n"))
            for name in [
                "cpu_seconds_total", "open_fds", "max_fds", "resident_memory_bytes", "start_time_seconds", "threads",
            ] {
                #expect(plain.body.contains("\nprocess_\(name) "), "process_\(name) is missing")
            }

            let accept = ["Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5"]
            let open = try await PlainHTTP.ask(port: port, "/metrics", accept)
            #expect(
                open.head.lowercased().contains(
                    "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"
                )
            )
            #expect(open.body.hasSuffix("# EOF\n"))

            let head = try await PlainHTTP.ask("HEAD", port: port, "/metrics", accept)
            #expect(head.status == 200)
            #expect(head.body == "")
            #expect(head.head.lowercased().contains("application/openmetrics-text"))
            #expect(try await PlainHTTP.ask(port: port, "/nothing").status == 404)
        }
    }

    @Test func `A refused configuration is read again when a file comes that it names`() async throws {
        try await withChassis { port, folder, _ in
            func isInUse() async throws -> Bool {
                try await PlainHTTP.ask(port: port, "/metrics").body.contains("apus_config_last_reload_successful 1\n")
            }
            #expect(try await isInUse())
            try folder.write("apus.yaml", "redis: {user: apus, password_file: \(folder.path)/password}")
            _ = try await until { try await isInUse() ? nil : true }
            try folder.write("password", "secret")
            _ = try await until { try await isInUse() ? true : nil }
        }
    }

    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/promtool"), "needs the package prometheus")
    )
    func promtoolFindsNothingToSayOfALiveService() async throws {
        try await withChassis { port, folder, _ in
            let text = try await PlainHTTP.ask(port: port, "/metrics").body
            let file = try #require(FileHandle(forReadingAtPath: try folder.write("metrics", text)))
            let said = Pipe()
            let promtool = Process()
            promtool.executableURL = URL(filePath: "/usr/bin/promtool")
            promtool.arguments = ["check", "metrics"]
            promtool.standardInput = file
            promtool.standardOutput = said
            promtool.standardError = said
            try promtool.run()
            let words = String(decoding: try said.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            promtool.waitUntilExit()
            #expect(words == "")
            #expect(promtool.terminationStatus == 0)
        }
    }

    @Test func eventLoopsAreMeasured() async throws {
        try await withChassis { port, _, _ in
            let text = try await until {
                let body = try await PlainHTTP.ask(port: port, "/metrics").body
                return body.contains("apus_event_loop_lag_seconds_count 0\n") ? nil : body
            }
            #expect(text.contains(/\napus_event_loop_busy_seconds_total\{loop="0"\} [0-9]+\.[0-9]+/))
        }
    }

    @Test func readinessFollowsTheChecks() async throws {
        let fault = Fault()
        try await withChassis(fault: fault) { port, _, _ in
            let ready = try await until {
                let answer = try await PlainHTTP.ask(port: port, "/readyz")
                return answer.status == 200 ? answer : nil
            }
            #expect(
                ready.body
                    == "{\"status\":\"ready\",\"service\":\"apus-feedback\",\"checks\":[{\"name\":\"redis\",\"ok\":true,"
                    + "\"detail\":\"version 7.0.15\"}]}\n"
            )
            #expect(
                try await PlainHTTP.ask(port: port, "/readyz?verbose").body
                    == "{\"status\":\"ready\",\"service\":\"apus-feedback\",\"checks\":[{\"name\":\"configuration\",\"ok\":true},"
                    + "{\"name\":\"providers\",\"ok\":true},"
                    + "{\"name\":\"redis\",\"ok\":true,\"detail\":\"version 7.0.15\"}]}\n"
            )
            #expect(try await PlainHTTP.ask(port: port, "/metrics").body.contains("apus_ready 1\n"))

            fault.set("no \"connection\"")
            let unready = try await PlainHTTP.ask(port: port, "/readyz")
            #expect(unready.status == 503)
            #expect(
                unready.body
                    == "{\"status\":\"unready\",\"service\":\"apus-feedback\",\"checks\":[{\"name\":\"redis\",\"ok\":false,"
                    + "\"detail\":\"no \\\"connection\\\"\"}]}\n"
            )
            #expect(try await PlainHTTP.ask(port: port, "/metrics").body.contains("apus_ready 0\n"))

            let health = try await PlainHTTP.ask(port: port, "/healthz")
            #expect(health.status == 200)
            #expect(health.body == "{\"status\":\"ok\"}\n")
            #expect(try await PlainHTTP.ask(port: port, "/startupz").status == 200)
        }
    }

    @Test func `Settings that parts have failed with are refused until parts are ready with them`() async throws {
        let fault = Fault()
        fault.set("not yet")
        let tried = { (live: LiveSettings<NoSettings>) in
            live.restore(live.current, after: Late())
            _ = live.reload()
        }
        try await withChassis(fault: fault, prepare: tried) { port, _, _ in
            func isInUse() async throws -> Bool {
                try await PlainHTTP.ask(port: port, "/metrics").body.contains("apus_config_last_reload_successful 1\n")
            }
            #expect(try await !isInUse())
            fault.set(nil)
            _ = try await until { try await isInUse() ? true : nil }
        }
    }

    @Test func aBadReloadIsSeenInTheMetricsUntilAGoodOne() async throws {
        try await withChassis("log: {level: info}") { port, folder, reload in
            func successful() async throws -> Bool {
                try await PlainHTTP.ask(port: port, "/metrics").body.contains("apus_config_last_reload_successful 1\n")
            }
            #expect(try await successful())
            // Found by looking at the file.
            try folder.write("apus.yaml", "log: {level: loud}")
            _ = try await until { try await successful() ? nil : true }
            let ready = try await PlainHTTP.ask(port: port, "/readyz")
            #expect(ready.status == 200 && ready.body.contains("former settings stay in use: log.level"))
            try folder.write("apus.yaml", "log: {level: debug}")
            reload()
            _ = try await until { try await successful() ? true : nil }
        }
    }
}

@Suite struct ReadinessTests {
    @Test func withoutChecksThePhaseDecides() async {
        let readiness = Readiness()
        #expect(await !readiness.report().isReady)
        #expect(readiness.phase == .starting)
    }

    @Test func aCheckThatDoesNotAnswerIsFailing() async {
        let readiness = Readiness()
        readiness.add("slow") {
            try? await Task.sleep(for: .seconds(3_600))
            return .ok()
        }
        let report = await readiness.report()
        #expect(report.checks.map(\.result) == [.failing("No answer within 2 s.")])
    }
}
