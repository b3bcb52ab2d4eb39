import ApusBuiltInProviders
import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Foundation
import Testing

private let python = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: ".build/python/bin/python3").path(percentEncoded: false)
private let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "check_pages.py")
    .path(percentEncoded: false)
private let canRun = ["/usr/bin/chromium", "/usr/bin/chromedriver", python].allSatisfy {
    FileManager.default.isExecutableFile(atPath: $0)
}

/// The pages of a console in a browser: every page by the rules of WCAG, with and without script, and what its forms do.
@Suite struct PagesTests {
    /// Fills an installation with something for every page to show.
    private static func fill(_ installation: Installation) async throws -> String {
        let (streams, app) = (installation.streams, try AppID("shop"))
        let route = Route(app: app, provider: .apns, environment: .production)
        let number = try await streams.routes.number(of: route)
        for index in 0..<60 {
            var notification = Notification()
            notification.title = index == 7 ? "<b>Sale</b> & more" : "News \(index)"
            notification.body = "Something happened that is worth a look."
            var variant = Notification.LocaleVariant(locale: "ar")
            variant.title = "أخبار"
            notification.variants = [variant]
            var command = SendCommand(app: "shop", target: .topic("news"), notification: notification)
            command.id = "news-\(index)"
            let home = streams.home(app: "shop", command.id)
            let entry = StreamEntry(stream: home.mailbox(.bulk), id: "\(index + 1)-1", message: [], deliveries: 1)
            _ = try await streams.mailboxes.accept(
                command,
                identity: SendIdentity(of: command, source: entry.source),
                routes: [number],
                from: entry,
                by: StreamConsumer(group: StreamGroup.dispatcher, name: "test"),
                due: nil,
            )
            let counts = RedisCommand(
                "HSET",
                [
                    .text(home.send(SendKey(app: "shop", id: command.id))), "planned", "1000", "planning", "0",
                    "apns/accepted/none", "640", "apns/unregistered/unregistered", "60", "apns/failed/unknown", "20",
                ]
            )
            _ = try await streams.client.send(counts, on: home.tag)
        }
        try await streams.audit.record(
            AuditEntry("route.pause", of: "\(route)", app: "shop", by: Operator("ada@ops", through: .commandLine))
        )
        var letter = DeadLetter(
            stream: streams.keys(shard: 0).mailbox(.bulk),
            entry: "1-1",
            cause: .malformed,
            problem: Problem(code: "malformed", field: "", detail: "the bytes are no command"),
            payload: [1, 2, 3],
            at: SystemClock().now()
        )
        letter.app = "shop"
        let keys = streams.keys(shard: 0)
        var letters = [letter]
        for index in 1...2 {
            var command = SendCommand(app: "shop", target: .topic("news"), notification: Notification())
            command.id = "given-up-\(index)"
            command.notification.title = "Given up \(index)"
            var poison = DeadLetter(
                stream: keys.mailbox(.bulk),
                entry: "\(index)-1",
                cause: .poison,
                problem: Problem(code: "poison", field: "", detail: "five deliveries without progress"),
                payload: try command.encode(),
                at: SystemClock().now()
            )
            (poison.app, poison.send) = ("shop", command.id)
            letters.append(poison)
        }
        for letter in letters {
            let write = RedisCommand("XADD", .text(keys.dead), "*", "m", .bytes(try letter.encode()))
            _ = try await streams.client.send(write, on: keys.tag)
        }
        var receipt = SendReceipt(id: "final", send: "code-for-ada", app: "shop", kind: .final)
        receipt.planned = 2
        receipt.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 2)]
        let home = streams.home(app: "shop", receipt.send)
        let write = RedisCommand("XADD", .text(home.receipts), "*", "m", .bytes(try receipt.encode()))
        _ = try await streams.client.send(write, on: home.tag)
        try await Self.quarantine(25, of: 30, on: route, number, installation)
        return try await APIKeys(installation.client).create(app, name: "ops", role: .admin, now: SystemClock().now())
    }

    /// Registers devices, the last two of the user ada, and puts the first of them into a quarantine that stops their route.
    static func quarantine(
        _ bad: Int,
        of count: Int,
        on route: Route,
        _ number: RouteNumber,
        _ installation: Installation
    ) async throws {
        let store = installation.store
        var tokens: [OwnedToken] = []
        for index in 0..<count {
            let token = Hexadecimal.encode([UInt8](repeating: UInt8(index + 1), count: 32))
            var registration = DeviceRegistration(device: "phone-\(index)", provider: .apns, token: token)
            registration.topics = ["news"]
            if index >= count - 2 { registration.user = "ada" }
            let device = try await store.register(route.app, registration).device
            guard index < bad else { continue }
            let (digest, now) = (DeviceToken.digest(device.record.token), SystemClock().now())
            _ = try await store.markSuspect(route, device.reference, tokenDigest: digest, reason: .badToken, since: now)
            var event = HistoryEvent(.suspected, at: now, provider: .apns)
            (event.reason, event.providerReason) = (.badToken, "BadDeviceToken")
            try await store.note([.init(event, of: device)], .init(keepMilliseconds: 3_600_000))
            let suspect = QuarantinedToken(
                reference: device.reference,
                tokenDigest: digest,
                since: now,
                reason: .badToken
            )
            tokens.append(OwnedToken(suspect, of: "owner-\(index)", registeredAt: UnixMilliseconds(0)))
        }
        let rules = GuardRules(
            windowMilliseconds: 60_000,
            delayMilliseconds: 600_000,
            tokensMin: 20,
            percentMax: 10,
            deadPercentMax: 50
        )
        let verdict = try await installation.streams.quarantine.add(tokens, of: 50, on: number, rules: rules).verdict
        #expect(verdict == .tripped)
    }

    @Test(.enabled(if: canRun, "needs Scripts/setup"))
    func `Every page keeps the rules of WCAG 2.2 AA, works without script, and does what its forms say`() async throws {
        BuiltInProviders.install()
        let folder = try TemporaryFolder()
        try await ServedConsole.with { installation, port in
            let key = try await Self.fill(installation)
            let (status, output) = try await Self.run([script, "http://127.0.0.1:\(port)", key, folder.path])
            #expect(status == 0, "\(output.suffix(6_000))")
            #expect(output.contains("all pages passed"), "\(output.suffix(6_000))")
            let trail = try await installation.streams.audit.newest(20, app: "shop")
            #expect(
                trail.filter { $0.source == .console }.map(\.action) == [
                    "send.cancel", "console.sign_in", "device.forget", "user.forget", "quarantine.confirm",
                    "dead_letter.purge", "dead_letter.replay",
                    "dead_letter.replay", "send.cancel", "send.pause", "send.resume", "send.pause", "console.sign_in",
                ]
            )
            try await Self.checkActs(installation)
        }
    }

    /// Checks in the installation what the forms were to do.
    private static func checkActs(_ installation: Installation) async throws {
        let (streams, store, app) = (installation.streams, installation.store, try AppID("shop"))
        let keys = streams.keys(shard: 0)
        let entries = try await streams.client.send(
            RedisCommand("XRANGE", .text(keys.mailbox(.bulk)), "-", "+"),
            on: keys.tag,
            options: .idempotent
        )
        let replayed = entries.root.children.compactMap { entry in
            try? SendCommand.decode(entry.element(1)?.element(1)?.bytes ?? []).id
        }
        #expect(replayed.sorted() == ["given-up-1", "given-up-2"])
        let letters = try await streams.client.send(RedisCommand("XLEN", .text(keys.dead)), on: keys.tag)
        #expect(letters.root.integer == 0)
        let route = Route(app: app, provider: .apns, environment: .production)
        // Of 30 devices, 25 were quarantined, two were of a user, and one was forgotten by itself.
        #expect(try await store.deviceCount(route) == 2)
        let state = try await streams.quarantine.state(of: try await streams.routes.number(of: route))
        #expect(state.tokens == 0 && state.quarantinedAt == nil)
        #expect(try await store.devices(app, ofUser: try UserID("ada")).isEmpty)
        #expect(try await store.get(app, try DeviceID("phone-27")) == nil)
    }

    private static func run(_ arguments: [String]) async throws -> (status: Int32, output: String) {
        let log = FileManager.default.temporaryDirectory.appending(path: "pages-\(UUID().uuidString)")
        _ = FileManager.default.createFile(atPath: log.path(), contents: nil)
        defer { try? FileManager.default.removeItem(at: log) }
        let process = Process()
        process.executableURL = URL(filePath: python)
        process.arguments = arguments
        let handle = try FileHandle(forWritingTo: log)
        process.standardOutput = handle
        process.standardError = handle
        try await withCheckedThrowingContinuation { (ended: CheckedContinuation<Void, any Error>) in
            process.terminationHandler = { _ in ended.resume() }
            do { try process.run() } catch { ended.resume(throwing: error) }
        }
        return (process.terminationStatus, try String(contentsOf: log, encoding: .utf8))
    }
}
