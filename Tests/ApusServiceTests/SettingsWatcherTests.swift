import ApusCore
import ApusMetrics
import ApusRedis
import ApusTestKit
import Foundation
import Logging
import NIOPosix
import Synchronization
import Testing

@testable import ApusService

private struct NoMetrics: MetricSet {}

private struct Broken: Error {}

/// Holds a value that a test changes while others read it.
private final class Changing<Value: Sendable>: Sendable {
    private let state: Mutex<Value>

    init(_ value: Value) { self.state = Mutex(value) }

    var value: Value {
        get { self.state.withLock { $0 } }
        set { self.state.withLock { $0 = newValue } }
    }
}

/// Decisions about changed settings, for parts that only say what they can take over.
@Suite struct SettingsWatcherTests {
    private typealias Context = ServiceContext<NoSettings, NoMetrics>

    /// Watches a configuration that `body` may write anew.
    private static func with(
        _ yaml: String,
        _ body: (_ context: Context, _ write: (_ yaml: String) throws -> Void) async throws -> Void,
    ) async throws {
        let folder = try TemporaryFolder()
        let source = SettingsSource(file: try folder.write("apus.yaml", yaml), environment: [:])
        let live = try LiveSettings<NoSettings>(source, for: .feedback)
        let null = try #require(FileHandle(forWritingAtPath: "/dev/null"))
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let context = Context(
            live,
            metrics: NoMetrics.self,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            canRenew: true,
            logger: logger,
        )
        let watcher = SettingsWatcher(
            settings: live,
            inUse: live.current,
            sink: LogSink(
                writer: LogWriter(descriptor: null.fileDescriptor),
                isJSON: true,
                level: .info,
                clock: SystemClock(),
            ),
            logger: logger,
            shared: context.registry.shared,
            metrics: context.commonMetrics,
            clock: SystemClock(),
            pollInterval: .milliseconds(5),
            asked: AsyncStream<Void>.makeStream().stream,
            renewal: context.renewal,
        )
        let watching = Task { try await watcher.run() }
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(context) { _ = try folder.write("apus.yaml", $0) })
        } catch {
            result = .failure(error)
        }
        watching.cancel()
        _ = await watching.result
        withExtendedLifetime(null) {}
        withExtendedLifetime(folder) {}
        try result.get()
    }

    @Test func `New parts are not made while a credential is refused, and are once it is good`() async throws {
        let refusal = Changing<String?>("the provider refuses it")
        try await Self.with("drain_timeout: 20s") { context, write in
            context.renewal.setReview { _ in
                var review = SettingsReview()
                review.refusals = refusal.value.map { [$0] } ?? []
                return review
            }
            try write("drain_timeout: 21s")
            try await eventually("it waits") {
                context.settings.refusal
                    == "drain_timeout: they wait until every credential is good; the provider refuses it"
            }
            #expect(!context.renewal.isRequested)
            refusal.value = nil
            try write("drain_timeout: 21s\n# Once more.")
            try await eventually("new parts are asked for") { context.renewal.isRequested }
            #expect(context.settings.refusal == nil)
        }
    }

    @Test func `A provider that could not be asked is asked again although nothing changes`() async throws {
        let isAway = Changing(true)
        try await Self.with("drain_timeout: 20s") { context, write in
            context.renewal.setReview { _ in
                var review = SettingsReview()
                guard isAway.value else { return review }
                review.refusals = ["it could not be asked"]
                review.retryInterval = .zero
                return review
            }
            try write("drain_timeout: 21s")
            try await eventually("it waits") { context.settings.refusal != nil }
            #expect(!context.renewal.isRequested)
            isAway.value = false
            try await eventually("new parts are asked for") { context.renewal.isRequested }
        }
    }

    @Test(arguments: [RedisError(.wrongPassword, "refused"), RedisError(.notConnected, "away")])
    func `Other settings of Redis wait until it takes them, and so does whatever has changed with them`(
        error: RedisError
    ) async throws {
        let problem = Changing<RedisError?>(error)
        try await Self.with("redis: {url: \"redis://127.0.0.1:1\"}") { context, write in
            context.renewal.setOpening { _ throws(RedisError) in if let error = problem.value { throw error } }
            context.renewal.setReview { _ in
                var review = SettingsReview()
                review.renewals = ["shop/apns/production"]
                return review
            }
            try write("redis: {url: \"redis://127.0.0.1:2\"}")
            try await eventually("it waits") {
                context.settings.refusal == "redis, shop/apns/production: \(error)"
            }
            #expect(!context.renewal.isRequested)
            problem.value = nil
            try await eventually("new parts are asked for") { context.renewal.isRequested }
            #expect(context.settings.refusal == nil)
        }
    }

    @Test func `A Redis that is away is no reason against new parts that use the same one, and a refusal is`()
        async throws
    {
        let problem = Changing(RedisError(.wrongPassword, "refused"))
        try await Self.with("drain_timeout: 20s") { context, write in
            context.renewal.setOpening { _ throws(RedisError) in throw problem.value }
            try write("drain_timeout: 21s")
            try await eventually("it waits") { context.settings.refusal == "drain_timeout: \(problem.value)" }
            #expect(!context.renewal.isRequested)
            problem.value = RedisError(.notConnected, "away")
            try await eventually("new parts are asked for") { context.renewal.isRequested }
        }
    }

    @Test func `New parts are not asked for once other settings were read, and none are read once they are`() {
        let renewal = Renewal<NoSettings>(isPossible: true)
        let decided = renewal.changes
        func isRead() -> Bool {
            var isRead = false
            _ = renewal.change {
                isRead = true
                return .taken
            }
            return isRead
        }
        #expect(isRead())
        renewal.request(["redis"], at: decided)
        #expect(!renewal.isRequested)
        renewal.request(["redis"], at: renewal.changes)
        #expect(renewal.isRequested)
        #expect(!isRead())
    }

    @Test func `The settings in force are those of the parts, with what these have taken over`() async throws {
        let renewals = Changing<[String]>([])
        try await Self.with("drain_timeout: 20s") { context, write in
            context.renewal.setReview { _ in
                var review = SettingsReview()
                review.renewals = renewals.value
                if let first = try? AppID("first") { review.appsInUse = [first] }
                return review
            }
            func apps() -> [String] { context.settings.inForce.common.apps.keys.map(\.text).sorted() }
            try write("drain_timeout: 20s\napps: {first: {}}")
            try await eventually("the first app is taken over") { apps() == ["first"] }
            renewals.value = ["second/apns/production"]
            try write("drain_timeout: 21s\napps: {first: {receipt_streams: [orders]}, second: {}}")
            try await eventually("new parts are asked for") { context.renewal.isRequested }
            #expect(try context.settings.inForce.common.apps[AppID("first")]?.receiptStreams == ["orders"])
            #expect(context.settings.inForce.common.drainTimeout == .seconds(20) && apps() == ["first"])
            #expect(context.settings.current.common.apps.count == 2)
        }
    }

    @Test func `Settings that parts have failed with because of Redis are tried again, others once a file has changed`()
        async throws
    {
        try await Self.with("apps: {}") { context, write in
            let former = context.settings.current
            func isTaken() -> Bool {
                context.settings.current.common.apps.count == 1 && context.settings.refusal == nil
            }
            try write("apps: {shop: {}}")
            try await eventually("it is taken over") { isTaken() }
            context.settings.restore(former, after: RedisError(.wrongPassword, "refused"))
            try await eventually("it is tried again") { isTaken() }

            context.settings.restore(former, after: Broken())
            #expect(context.settings.current.common.apps.isEmpty)
            try write("apps: {shop: {}} # Once more.")
            try await eventually("it is tried again") { isTaken() }
        }
    }

    @Test func `Settings stay refused while they are tried again, which is done ever more rarely`() async throws {
        try await Self.with("drain_timeout: 20s") { context, write in
            context.settings.restore(context.settings.current, after: Broken())
            try write("drain_timeout: 21s")
            try await eventually("new parts are asked for") { context.renewal.isRequested }
            #expect(context.settings.refusal == "\(Broken())" && context.settings.failureCount == 1)
        }
        let polls = (1...8).map { SettingsWatcher<NoSettings>.pollsPerAttempt(afterFailures: $0) }
        #expect(polls == [12, 24, 48, 96, 192, 384, 384, 384])
    }

    @Test func `A file counts as changed once it is the same at two looks in a row`() throws {
        let folder = try TemporaryFolder()
        let source = SettingsSource(file: try folder.write("apus.yaml", "drain_timeout: 20s"), environment: [:])
        let live = try LiveSettings<NoSettings>(source, for: .feedback)
        #expect(live.lookForChange() == .unchanged)
        // A shell empties the file before a program has written anything.
        for text in ["", "drain_timeout: 2", "drain_timeout: 21s"] {
            try folder.write("apus.yaml", text)
            #expect(live.lookForChange() == .unfinished)
        }
        #expect(live.lookForChange() == .changed)
        #expect(live.reload() == .taken && live.lookForChange() == .unchanged)
        #expect(live.current.common.drainTimeout == .seconds(21))
        withExtendedLifetime(folder) {}
    }

    @Test func `A file that was emptied is refused, and used once it is whole`() async throws {
        try await Self.with("apps: {shop: {}}") { context, write in
            try write("")
            try await eventually("it is refused") { context.settings.refusal?.contains("all of its entries") == true }
            #expect(context.settings.current.common.apps.count == 1)
            try write("apps: {shop: {}, second: {}}")
            try await eventually("it is used") { context.settings.current.common.apps.count == 2 }
            #expect(context.settings.refusal == nil)
        }
    }

    @Test
    func `Former settings come back with the newest keys of records, and the files that failed are not read again`()
        throws
    {
        let folder = try TemporaryFolder()
        let (first, second) = (String(repeating: "1", count: 64), String(repeating: "2", count: 64))
        let keys = try folder.write("keys", first)
        let yaml = "store: {encryption_key_file: \(keys)}\n"
        let source = SettingsSource(file: try folder.write("apus.yaml", yaml), environment: [:])
        let live = try LiveSettings<NoSettings>(source, for: .feedback)
        let former = live.current
        try folder.write("keys", "\(second)\n\(first)")
        try folder.write("apus.yaml", yaml + "drain_timeout: 21s")
        #expect(live.lookForChange() != .unchanged && live.reload() == .taken)
        #expect(live.current.common.drainTimeout == .seconds(21))

        live.restore(former, after: Broken())
        #expect(live.current.common.drainTimeout == former.common.drainTimeout)
        #expect(live.current.common.store.encryptionKeys.count == 2)
        #expect(live.lookForChange() == .unchanged)
        try folder.write("apus.yaml", yaml + "drain_timeout: 22s")
        #expect(live.lookForChange() != .unchanged)

        // It is not the one that failed.
        #expect(live.reload() == .taken && live.lookForChange() == .unchanged)
        live.restore(former, after: Broken(), hasNewest: true)
        #expect(live.current.common.drainTimeout == former.common.drainTimeout && live.lookForChange() != .unchanged)
        #expect(live.reload() == .taken && live.lookForChange() == .unchanged)
        #expect(live.current.common.drainTimeout == .seconds(22))
        withExtendedLifetime(folder) {}
    }
}
