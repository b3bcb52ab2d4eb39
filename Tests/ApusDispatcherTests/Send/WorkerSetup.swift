import ApusAPNs
import ApusCore
import ApusMessages
import ApusMetrics
import ApusProviders
import ApusRedis
import ApusSimulator
import ApusStreams
import ApusTLS
import ApusTestKit
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import ApusDispatcher

/// Grants as a test wants them.
final class ScriptedGrants: RateLimitSource {
    let phaseNanoseconds: UInt64 = 0
    private struct State {
        var answer: @Sendable (RateLimitRequest, RateLimit) -> RateLimitGrant?
        var requests: [(request: RateLimitRequest, limiter: RateLimit, rate: Double?)] = []
    }

    private let state: Mutex<State>

    /// Answers every request so; nil: Redis is away.
    init(_ answer: @escaping @Sendable (RateLimitRequest, RateLimit) -> RateLimitGrant?) {
        self.state = Mutex(State(answer: answer))
    }

    static var unlimited: ScriptedGrants { ScriptedGrants { _, _ in RateLimitGrant(permits: nil) } }

    /// From now on.
    func answer(_ answer: @escaping @Sendable (RateLimitRequest, RateLimit) -> RateLimitGrant?) {
        self.state.withLock { $0.answer = answer }
    }

    /// Rates asked for, of the limiters with that in their names.
    func rates(_ name: String) -> [Double?] {
        self.state.withLock { state in state.requests.filter { $0.limiter.key.contains(name) }.map(\.rate) }
    }

    /// The number of requests that did not wait for the interval's end.
    var urgentCount: Int { self.state.withLock { state in state.requests.count { $0.request.isUrgent } } }

    func grant(
        _ request: RateLimitRequest,
        of limiter: RateLimit,
        ratePerSecond: Double?,
        on eventLoop: any EventLoop,
    ) -> EventLoopFuture<RateLimitGrant> {
        let grant = self.state.withLock { state in
            state.requests.append((request, limiter, ratePerSecond))
            return state.answer(request, limiter)
        }
        guard let grant else { return eventLoop.makeFailedFuture(ChannelError.connectTimeout(.seconds(1))) }
        return eventLoop.makeSucceededFuture(grant)
    }
}

/// One worker with one route to a simulated Apple.
struct WorkerSetup: Sendable {
    static let route = RouteNumber(1)

    let simulator: Simulator
    let worker: WorkerHandle
    let grants: ScriptedGrants
    /// Makes another gateway for the route; to be called on the worker's event loop.
    let makeGateway: @Sendable () -> ProviderGateway
    private let send: SendContext

    static func with(
        _ grants: ScriptedGrants = .unlimited,
        window: Int = 2_000,
        expiresAt: UnixMilliseconds? = nil,
        // A test that writes nothing for a while is no Redis that is away.
        unwrittenTimeMax: TimeAmount = .minutes(5),
        recheckAfter: TimeAmount = .minutes(5),
        _ body: (WorkerSetup) async throws -> Void,
    ) async throws {
        let simulator = try await Simulator.start()
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let app = SimulatedApp.demo
        let pem = Array((simulator.signingKeyPEM(app: app.name) ?? "").utf8)
        let key = try APNsProviderKey(keyID: app.keyID, teamID: app.teamID, pem: pem)
        let credential = APNsCredential(key: key, store: nil, clock: SystemClock(), logger: logger)
        let tls = try TLSContext.client(trust: .pem(simulator.authorityPEM), alpn: ["h2"])
        let configuration = ProviderGatewayConfiguration.apns(
            host: "127.0.0.1",
            port: simulator.addresses.apnsPort ?? 0,
        )
        var catalogue = MetricCatalogue()
        let metrics = DispatcherMetrics(&catalogue)
        let registry = MetricRegistry(catalogue)
        let limit = RouteRateLimit(
            limiter: RateLimit(ofSend: "shop/route", tag: HashTag(ofKey: "{1}")),
            ratePerSecond: nil
        )
        let makeGateway: @Sendable () -> ProviderGateway = {
            ProviderGateway(
                configuration: configuration,
                credential: credential,
                eventLoop: loop,
                tls: tls,
                clock: SystemClock(),
                logger: logger,
            )
        }
        let worker = try await loop.submit {
            var settings = WorkerSettings()
            settings.window = window
            settings.unwrittenTimeMax = unwrittenTimeMax
            settings.recheckAfter = recheckAfter
            let worker = Worker(
                eventLoop: loop,
                clock: SystemClock(),
                settings: settings,
                rateLimitSource: grants,
                metrics: metrics,
                shard: registry.makeShard(),
            )
            worker.add(RouteGateways(notifications: makeGateway()), for: Self.route, rateLimit: limit)
            return WorkerHandle(worker)
        }.get()
        let setup = WorkerSetup(
            simulator: simulator,
            worker: worker,
            grants: grants,
            makeGateway: makeGateway,
            send: try Self.send(app, expiresAt: expiresAt),
        )
        do {
            try await body(setup)
        } catch {
            // Nothing is left on the wire then; the gateway must not outlive its worker.
            await simulator.stop()
            await worker.drain()
            throw error
        }
        await worker.drain()
        await simulator.stop()
    }

    private static func send(_ app: SimulatedApp, expiresAt: UnixMilliseconds?) throws -> SendContext {
        let context = try Self.context(title: "Hi")
        return SendContext(
            send: "s",
            command: SendCommand(app: app.name, target: .everyone([]), notification: Notification()),
            tag: HashTag(ofKey: "{1}"),
            digest: 7,
            expiresAt: expiresAt,
            predicate: .exists,
            routes: [Self.route: context],
            anyProvider: .apns,
        )
    }

    /// A message with that title on the route.
    static func context(title: String) throws -> RouteContext {
        let app = SimulatedApp.demo
        var notification = Notification()
        notification.title = title
        let now = SystemClock().now()
        let context = RenderContext(send: try SendID("s"), publishedAt: now, now: now)
        let messages = try APNsRenderer(bundleID: app.bundleID ?? "").render(notification, context: context)
            .map { message throws(Problem) in try PreparedMessage.apns(message, authority: "127.0.0.1") }
        let route = Route(app: try AppID(app.name), provider: .apns, environment: .production)
        return RouteContext(
            route: route,
            number: Self.route,
            RenderedRoute(messages: messages, tokenKinds: .all),
            retryRules: .apns,
        )
    }

    /// A run to so many devices, those from `first` on.
    ///
    /// - Parameters:
    ///   - tag: of the shard in which the send lives; nil: the usual one.
    ///   - subroute: by which it goes.
    func plan(
        _ count: Int,
        from first: Int = 0,
        lane: Lane = .bulk,
        in tag: HashTag? = nil,
        by subroute: String = "",
    ) throws -> RunPlan {
        let send =
            tag.map { tag in
                SendContext(
                    send: self.send.send,
                    command: self.send.command,
                    tag: tag,
                    digest: self.send.digest,
                    expiresAt: self.send.expiresAt,
                    predicate: self.send.predicate,
                    routes: self.send.routes,
                    anyProvider: .apns,
                )
            } ?? self.send
        guard let context = send.routes[Self.route] else { throw NoSuchRoute() }
        var table = RecipientTable()
        for index in first..<first + count {
            let token = (0..<32).map { UInt8(truncatingIfNeeded: index >> ($0 % 4 * 8)) ^ UInt8($0) }
            table.append(RecipientTable.Row(partition: 0, ordinal: UInt32(index)), token: token)
        }
        guard !subroute.isEmpty else { return RunPlan(send: send, context: context, lane: lane, table: table) }
        let rendered = RenderedRoute(messages: context.messages, tokenKinds: .all, subroute: subroute)
        let own = RouteContext(route: context.route, number: context.number, rendered, retryRules: .apns)
        return RunPlan(send: send, context: own, lane: lane, table: table)
    }

    /// The number of requests that Apple has accepted.
    var accepted: Int { self.simulator.ledger.snapshot.timeline.accepted(.apns, from: 0) }

    /// Writes down what a run tells until it has ended; what its reports say in all.
    func follow(_ token: RunToken) async throws -> [Outcome: UInt64] {
        var outcomes: [Outcome: UInt64] = [:]
        while true {
            let update = try await self.worker.update(token)
            for count in update.report.counts(provider: .apns) { outcomes[count.outcome, default: 0] += count.count }
            guard update.isFinished else { continue }
            try await self.worker.remove(token)
            return outcomes
        }
    }

    /// Starts a run and follows it to its end; the number of its recipients that wait for their subroute.
    func waiting(_ plan: RunPlan) async throws -> Int {
        let token = try await self.worker.start(plan)
        var waiting = 0
        while true {
            let update = try await self.worker.update(token)
            waiting += update.subroute.reduce(0) { $0 + $1.indices.count }
            // They follow soon after the subroute is accepted, even if the next question is far.
            let latest = SystemClock().now().advanced(byMilliseconds: 140_000)
            #expect(update.subroute.allSatisfy { $0.due < latest })
            guard update.isFinished else { continue }
            try await self.worker.remove(token)
            return waiting
        }
    }

    struct NoSuchRoute: Error {}
}

extension RecipientRun {
    /// Takes the next recipient at a time at which no record is old.
    mutating func takeNext() -> Int? { self.takeNext(now: 0) }
}
