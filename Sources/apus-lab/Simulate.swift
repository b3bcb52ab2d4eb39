import ApusCore
import ApusSimulator
import ArgumentParser
import Dispatch
import FoundationEssentials
import Glibc

/// Runs simulated providers until the duration is over or a signal arrives (`apus-lab simulate`).
struct Simulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Simulate the push services of Apple, Google and browsers.",
        discussion: """
            Listens with HTTP/2 over TLS, writes the credentials that a dispatcher needs, and keeps a ledger of \
            every request, to be read at the control port: GET /summary, /metrics, /sends, /timeline, /accepted, \
            /ledger (NDJSON), /ca.pem; POST /dead, /faults, /listeners, /reset; the WebSocket /push for a real Firefox.
            """,
    )

    @Option(help: "The address to listen on.")
    var host = "127.0.0.1"
    @Option(help: "Apple's port; 0 takes a free one.")
    var apnsPort = 0
    @Option(help: "Google's port; 0 takes a free one.")
    var fcmPort = 0
    @Option(name: .customLong("webpush-port"), help: "The push services' port for browsers; 0 takes a free one.")
    var webPushPort = 0
    @Option(help: "The control listener's port; 0 takes a free one.")
    var controlPort = 0
    @Option(
        help: "The address of the control listener; everybody who can connect to it can read and change everything."
    )
    var controlHost = "127.0.0.1"
    @Option(
        name: .customLong("name"),
        help:
            "A host name for the certificate, besides localhost; may be repeated. The first is written to ports.json.",
    )
    var names: [String] = []
    @Flag(help: "Simulate Apple's sandbox instead of production.")
    var sandbox = false
    @Option(help: "The folder to write ca.pem, keys, service accounts and ports.json into.")
    var folder: String?
    @Option(
        name: .customLong("app"),
        help: ArgumentHelp(
            "An app as name:bundle-id:project-id; may be repeated. Default: demo:example.apus.demo:apus-demo.",
            discussion: """
                With an APNs key of its own: name:bundle-id:project-id:key-id:environment:topics. The key id has ten \
                capital letters and digits, the environment is production, sandbox or empty (both), the topics are \
                bundle ids with commas between them, or empty (all of the team).
                """,
        ),
    )
    var apps: [String] = []
    @Option(help: "The number of VAPID keys of each app; a browser is bound to the key that it was first sent to with.")
    var keys = 1
    @Flag(help: "Accept every request without checking it, as fast as possible.")
    var fast = false
    @Option(help: "Share of tokens that are dead, 0 to 1.")
    var dead = 0.0
    @Option(help: "Milliseconds before each response.")
    var delay: Int64 = 0
    @Option(help: "Random milliseconds added to --delay, at most.")
    var jitter: Int64 = 0
    @Option(name: .customLong("error-429"), help: "Share of sends answered with 429, 0 to 1.")
    var tooManyRequests = 0.0
    @Option(name: .customLong("error-503"), help: "Share of sends answered with 503, 0 to 1.")
    var unavailable = 0.0
    @Option(name: .customLong("error-500"), help: "Share of sends answered with 500, 0 to 1.")
    var internalError = 0.0
    @Option(help: "Share of sends never answered, 0 to 1.")
    var silence = 0.0
    @Option(help: "Share of sends accepted without a response because the connection breaks, 0 to 1.")
    var drop = 0.0
    @Option(help: "Share of sends refused with REFUSED_STREAM, 0 to 1.")
    var refuse = 0.0
    @Option(help: "Requests after which a connection gets GOAWAY.")
    var goAwayAfter: Int?
    @Option(help: "Seconds in the Retry-After of 429 and 503 responses.")
    var retryAfter: Int?
    @Option(help: "The maximum number of concurrent streams of a connection.")
    var streams: UInt32 = 1_000
    @Option(help: "Flow-control window of a connection, in bytes.")
    var window = 65_535
    @Option(help: "The seed of dead tokens and faults.")
    var seed: UInt64 = 0
    @Option(help: "Event loops.")
    var loops = 1
    @Flag(help: "Keep only digests of tokens longer than 32 bytes: 64 bytes per request.")
    var digests = false
    @Option(help: "The seconds to run; by default until SIGINT or SIGTERM.")
    var duration: Double?
    @Option(help: "A YAML file with faults to cause: see --help-script.")
    var script: String?
    @Flag(help: "Only check the script, and report the line and field of a mistake.")
    var check = false
    @Flag(help: "Describe scripts, with an example.")
    var helpScript = false
    @Flag(help: "Print the addresses, and at the end the summary, as JSON.")
    var json = false

    func validate() throws {
        let plan = self.plan
        guard plan.isValid else { throw ValidationError("shares are 0 to 1, together at most 1; delays 0 to an hour") }
        guard (0...1).contains(self.dead) else { throw ValidationError("--dead is 0 to 1") }
        guard (1...SimulatedApp.keyCountMax).contains(self.keys) else {
            throw ValidationError("--keys is 1 to \(SimulatedApp.keyCountMax)")
        }
        guard self.streams >= 1, (1...256).contains(self.loops) else {
            throw ValidationError("--streams is at least 1, --loops 1 to 256")
        }
        guard (65_535...0x7fff_ffff).contains(self.window) else {
            throw ValidationError("--window is 65,535 to 2,147,483,647")
        }
        let ports = [self.apnsPort, self.fcmPort, self.webPushPort, self.controlPort]
        guard ports.allSatisfy({ (0...0xffff).contains($0) }) else { throw ValidationError("a port is 0 to 65,535") }
        guard self.retryAfter.map({ (0...86_400).contains($0) }) ?? true else {
            throw ValidationError("--retry-after is 0 to 86,400")
        }
        guard self.duration.map({ $0 > 0 && $0 < 1e9 }) ?? true else { throw ValidationError("--duration is positive") }
        guard self.script == nil || (plan.isQuiet && !self.fast) else {
            throw ValidationError(
                "--script defines the faults: omit --fast and the options for faults"
            )
        }
        guard self.script != nil || !self.check else { throw ValidationError("--check needs --script") }
        guard self.names.allSatisfy(Self.isName) else {
            throw ValidationError("--name is a host name, such as push.test")
        }
        _ = try self.parsedApps()
    }

    /// Returns true when the name can stand in a certificate and in an address.
    private static func isName(_ name: String) -> Bool {
        (1...253).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                (0x61...0x7a).contains(byte) || (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte)
                    || byte == 0x2d || byte == 0x2e
            }
    }

    func run() async throws {
        guard !self.helpScript else { return print(SimulatorScript.help) }
        let script = try self.script.map { file in
            guard let yaml = try? String(contentsOfFile: file, encoding: .utf8) else {
                throw ValidationError("\(file) cannot be read: is it there, is it UTF-8, and may you read it?")
            }
            var script = try SimulatorScript(yaml: yaml, name: file)
            if !script.hasSeed { script.plan.seed = self.seed }
            return script
        }
        if self.check, let script { return print("good: \(script.summary)") }
        var configuration = SimulatorConfiguration()
        configuration.host = self.host
        configuration.apnsPort = self.apnsPort
        configuration.fcmPort = self.fcmPort
        configuration.webPushPort = self.webPushPort
        configuration.controlPort = self.controlPort
        configuration.controlHost = self.controlHost
        configuration.names = self.names
        configuration.environment = self.sandbox ? .sandbox : .production
        configuration.isFast = self.fast
        configuration.streamsMax = self.streams
        configuration.connectionWindow = self.window
        configuration.eventLoops = self.loops
        let seed = script?.plan.seed ?? self.seed
        configuration.deadShare = DeadShare(self.dead, seed: seed)
        configuration.faults = self.plan
        configuration.script = script
        configuration.keepsLongTokens = !self.digests
        configuration.apps = try self.parsedApps()
        // The file may be of an earlier simulator: programs that wait for it must not read that one.
        if let folder { SimulatorCredentials.withdraw(from: folder) }
        let simulator = try await Simulator.start(configuration)
        do {
            let credentials = try self.folder.map { try simulator.writeCredentials(to: $0) }
            self.report(simulator.addresses, credentials, seed: seed)
            await self.waitForEnd()
        } catch {
            await simulator.stop()
            throw error
        }
        let summary = simulator.summary
        await simulator.stop()
        print(String(decoding: summary.json, as: UTF8.self))
    }

    private var plan: FaultPlan {
        var rates = FaultRates()
        rates.tooManyRequests = self.tooManyRequests
        rates.unavailable = self.unavailable
        rates.internalError = self.internalError
        rates.silence = self.silence
        rates.drop = self.drop
        rates.refusal = self.refuse
        rates.delayMilliseconds = self.delay
        rates.jitterMilliseconds = self.jitter
        rates.goAwayAfterRequests = self.goAwayAfter
        var plan = FaultPlan(seed: self.seed)
        plan.apns = rates
        plan.fcm = rates
        plan.webpush = rates
        plan.retryAfter = self.retryAfter.map { .seconds($0) } ?? .absent
        return plan
    }

    private func parsedApps() throws -> [SimulatedApp] {
        guard !self.apps.isEmpty else {
            var app = SimulatedApp.demo
            app.keyCount = self.keys
            return [app]
        }
        let apps = try self.apps.map { text in
            var app = try Self.app(text)
            app.keyCount = self.keys
            return app
        }
        for app in apps {
            guard let first = apps.first(where: { $0.keyID == app.keyID }) else { continue }
            guard app.keyTopics == first.keyTopics, app.keyEnvironment == first.keyEnvironment else {
                throw ValidationError(
                    "--app: \(first.name) and \(app.name) share the key \(app.keyID): it has one environment and one set of topics"
                )
            }
        }
        return apps
    }

    private static func app(_ text: String) throws -> SimulatedApp {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard (3...6).contains(parts.count), let name = try? AppID(parts[0]) else {
            throw ValidationError(
                "--app is name:bundle-id:project-id, and perhaps :key-id:environment:topics; leave one empty if there is none"
            )
        }
        var app = SimulatedApp(
            name: name.text,
            bundleID: parts[1].isEmpty ? nil : parts[1],
            projectID: parts[2].isEmpty ? nil : parts[2],
        )
        if parts.count > 3 {
            let isKeyID =
                parts[3].utf8.count == 10
                && parts[3].utf8.allSatisfy { byte in
                    (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte)
                }
            guard isKeyID else {
                throw ValidationError(
                    "--app \(name.text): a key id is ten capital letters and digits, such as APUSKEY002"
                )
            }
            app.keyID = parts[3]
        }
        if parts.count > 4, !parts[4].isEmpty {
            guard let environment = ProviderEnvironment(name: parts[4]) else {
                throw ValidationError(
                    "--app \(name.text): a key is for production, for sandbox or, left empty, for both"
                )
            }
            app.keyEnvironment = environment
        }
        if parts.count > 5, !parts[5].isEmpty { app.keyTopics = Set(parts[5].split(separator: ",").map(String.init)) }
        return app
    }

    private func report(_ addresses: SimulatorAddresses, _ credentials: SimulatorCredentials?, seed: UInt64) {
        if self.json {
            var start = addresses.json
            start["seed"] = .integer(seed)
            print(JSONValue.object(start).text)
        } else {
            let mode = self.fast ? "fast" : "strict"
            print("simulating APNs, FCM and Web Push, \(mode), seed \(seed)")
            if let port = addresses.apnsPort { print("  apns     \(addresses.scheme)://\(addresses.host):\(port)") }
            if let port = addresses.fcmPort { print("  fcm      \(addresses.scheme)://\(addresses.host):\(port)") }
            if let port = addresses.webPushPort { print("  webpush  \(addresses.scheme)://\(addresses.host):\(port)") }
            if let uri = addresses.tokenURI { print("  oauth    \(uri)") }
            if let url = addresses.controlURL { print("  control  \(url)/summary") }
            if let credentials { print("  files    \(credentials.folder)") }
        }
        // The parent process may wait for these lines through a pipe.
        fflush(nil)
    }

    /// Waits until the duration is over or a signal arrives.
    private func waitForEnd() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in Self.signals() { return } }
            if let duration = self.duration { group.addTask { try? await Task.sleep(for: .seconds(duration)) } }
            await group.next()
            group.cancelAll()
        }
    }

    private static func signals() -> AsyncStream<CInt> {
        AsyncStream { continuation in
            // Dispatch locks its sources itself, but its Swift overlay does not declare it.
            nonisolated(unsafe) let sources = [SIGINT, SIGTERM].map { number in
                signal(number, SIG_IGN)
                let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
                source.setEventHandler { continuation.yield(number) }
                source.resume()
                return source
            }
            continuation.onTermination = { _ in for source in sources { source.cancel() } }
        }
    }
}
