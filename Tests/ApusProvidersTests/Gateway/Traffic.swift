import ApusAPNs
import ApusCore
import ApusFCM
import ApusHTTP2
import ApusMessages
import ApusProviders
import ApusTLS
import NIOCore
import NIOPosix

/// Submits tags to a gateway whenever there is room, sends again what may go again at once, and keeps every answer. Lives on
/// one loop.
final class Traffic: ProviderGatewayDelegate {
    let gateway: ProviderGateway
    private let message: PreparedMessage
    private let token: [UInt8]
    private let lane: Lane
    /// True to send a free deferral again, as the dispatcher does; else it is an end.
    private let sendsAgain: Bool
    private var queue: [UInt64]
    private let total: Int
    private let finished: EventLoopPromise<Void>

    /// The last word on each tag.
    private(set) var outcomes: [UInt64: DeliveryOutcome] = [:]
    private(set) var reasons: [UInt64: String] = [:]
    private(set) var ids: [UInt64: String] = [:]
    /// Tags whose answers were of one origin of many.
    private(set) var ofOneOrigin: Set<UInt64> = []
    /// Tags that were answered although there was no request.
    private(set) var unsent: Set<UInt64> = []
    /// Submissions, and answers of any kind: at the end as many.
    private(set) var submissions = 0
    private(set) var answers = 0
    private(set) var freeDeferrals = 0
    private(set) var inFlightMax = 0
    /// The reported reasons why nothing can be sent.
    private(set) var holds: [String] = []
    /// The reported round trips of its connections, in nanoseconds.
    private(set) var connects: [(all: Int64, handshake: Int64)] = []
    private(set) var pings: [Int64] = []
    /// The reported reasons why it cannot connect or gets no credential, and the number of reports of room.
    private(set) var faults: [String] = []
    private(set) var rooms = 0
    /// Tags that wait for their answers: one that is not among them is answered twice.
    private var open: Set<UInt64> = []
    private(set) var strays = 0
    private var isSubmitting = false
    private(set) var isReentrant = false

    init(
        gateway: ProviderGateway,
        message: PreparedMessage,
        token: [UInt8],
        lane: Lane,
        total: Int,
        sendsAgain: Bool,
        finished: EventLoopPromise<Void>,
    ) {
        self.gateway = gateway
        self.message = message
        self.token = token
        self.lane = lane
        self.total = total
        self.sendsAgain = sendsAgain
        self.queue = (0..<UInt64(total)).reversed()
        self.finished = finished
        gateway.delegate = self
    }

    func feed() {
        while let tag = self.queue.last, self.gateway.hasRoom(self.lane) {
            self.isSubmitting = true
            let token = self.token
            let isTaken = self.gateway.submit(self.message, token: token.span, id: (1, tag), tag: tag, lane: self.lane)
            self.isSubmitting = false
            guard isTaken else { return }
            self.queue.removeLast()
            self.submissions += 1
            self.open.insert(tag)
            self.inFlightMax = max(self.inFlightMax, self.gateway.inFlight)
        }
    }

    /// Ends the wait for the end.
    func stop() { self.finished.succeed(()) }

    /// Submits one more, whatever `total` says; false: there was no room.
    func submit(_ tag: UInt64, token: [UInt8]? = nil, lane: Lane? = nil, validUntil: UInt64 = .max) -> Bool {
        let token = token ?? self.token
        let isTaken = self.gateway.submit(
            self.message,
            token: token.span,
            id: nil,
            tag: tag,
            lane: lane ?? self.lane,
            validUntil: validUntil,
        )
        if isTaken {
            self.submissions += 1
            self.open.insert(tag)
        }
        return isTaken
    }

    func gateway(
        _ gateway: ProviderGateway,
        answered tag: UInt64,
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
    ) {
        if self.isSubmitting { self.isReentrant = true }
        self.answers += 1
        if self.open.remove(tag) == nil { self.strays += 1 }
        if case .deferred(let deferral) = outcome, deferral.isFree {
            self.freeDeferrals += 1
            if self.sendsAgain { return self.queue.append(tag) }
        }
        self.outcomes[tag] = outcome
        self.reasons[tag] = answer.reason()
        self.ids[tag] = answer.id()
        if answer.isOfOneOrigin { self.ofOneOrigin.insert(tag) }
        if !answer.wasSent { self.unsent.insert(tag) }
        if self.outcomes.count == self.total { self.finished.succeed(()) }
    }

    func gateway(_ gateway: ProviderGateway, connectedWithin nanoseconds: Int64, handshake: Int64) {
        self.connects.append((nanoseconds, handshake))
    }

    func gateway(_ gateway: ProviderGateway, pingAnsweredWithin nanoseconds: Int64) { self.pings.append(nanoseconds) }

    func gateway(_ gateway: ProviderGateway, heldFor word: String) { self.holds.append(word) }

    func gateway(_ gateway: ProviderGateway, cannotSend detail: String) { self.faults.append(detail) }

    func gatewayHasRoom(_ gateway: ProviderGateway) {
        self.rooms += 1
        if self.isSubmitting { self.isReentrant = true }
        self.feed()
    }

    /// True while every submission has had exactly one answer.
    var isExact: Bool { self.strays == 0 && self.open.isEmpty && self.submissions == self.answers && !self.isReentrant }

    func count(_ outcome: DeliveryOutcome) -> Int { self.outcomes.values.count { $0 == outcome } }
}

/// A gateway and its traffic on a loop of their own.
struct TestGateway {
    let loop: any EventLoop
    let box: NIOLoopBound<Traffic>
    let finished: EventLoopFuture<Void>

    /// Starts a gateway to a fake provider and submits `total` tags.
    static func start(
        _ provider: FakeProvider,
        credential: any ProviderCredential,
        total: Int,
        lane: Lane = .bulk,
        as kind: Provider = .apns,
        sendsAgain: Bool = true,
        message given: PreparedMessage? = nil,
        loop: any EventLoop = MultiThreadedEventLoopGroup.singleton.next(),
        _ change: (inout ProviderGatewayConfiguration) -> Void = { _ in },
    ) async throws -> TestGateway {
        var configuration = gatewayConfiguration(to: kind, port: provider.port)
        configuration.backoff = ConnectBackoff(base: 5_000_000, cap: 50_000_000, stableAfter: 10_000_000_000)
        configuration.housekeeping = .milliseconds(20)
        configuration.bulkConnectionsMax = 1
        change(&configuration)
        let message = try given ?? (kind == .apns ? Self.apnsMessage() : Self.fcmMessage())
        let token = kind == .apns ? [UInt8](repeating: 0xab, count: 32) : Array("token:1".utf8)
        let finished = loop.makePromise(of: Void.self)
        let trust = provider.trust
        let box = try await loop.submit { [configuration] in
            let gateway = ProviderGateway(
                configuration: configuration,
                credential: credential,
                eventLoop: loop,
                tls: trust,
                clock: TestClock(),
                logger: quiet,
            )
            let traffic = Traffic(
                gateway: gateway,
                message: message,
                token: token,
                lane: lane,
                total: total,
                sendsAgain: sendsAgain,
                finished: finished,
            )
            gateway.start()
            traffic.feed()
            return NIOLoopBound(traffic, eventLoop: loop)
        }.get()
        return TestGateway(loop: loop, box: box, finished: finished.futureResult)
    }

    /// Looks at the traffic on its loop.
    func look<Result: Sendable>(_ body: @escaping @Sendable (Traffic) throws -> Result) async throws -> Result {
        let box = self.box
        return try await self.loop.submit { try body(box.value) }.get()
    }

    /// Waits until it is so.
    func until(_ condition: @escaping @Sendable (Traffic) -> Bool) async throws {
        while try await !self.look(condition) { try await Task.sleep(for: .milliseconds(1)) }
    }

    func drain() async throws {
        let box = self.box
        try await self.loop.flatSubmit {
            box.value.stop()
            return box.value.gateway.drain()
        }.get()
    }

    static func apnsMessage() throws -> PreparedMessage {
        try .apns(renderAPNs(notification()), authority: "localhost")
    }

    static func fcmMessage() throws -> PreparedMessage {
        try .fcm(renderFCM(notification()), project: "example-project", authority: "localhost")
    }
}

/// Gives one header for ever.
final class FixedCredential: ProviderCredential {
    let header: HeaderValue
    let rejections = Tally()
    let renewalsTooMany = Tally()

    init(_ text: String = "bearer token") throws { self.header = try HeaderValue(text) }

    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        eventLoop.makeSucceededFuture(.usable(self.header, askAgainAt: UnixMilliseconds(.max)))
    }

    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.rejections.add()
        return eventLoop.makeSucceededFuture(.paused(detail: "rejected"))
    }

    func renewedTooOften() { self.renewalsTooMany.add() }

    func restored() {}

    var expiresAt: UnixMilliseconds? { nil }
}

/// A gateway's configuration for a provider that stands on this machine.
func gatewayConfiguration(to provider: Provider, port: Int) -> ProviderGatewayConfiguration {
    provider == .apns ? .apns(host: "127.0.0.1", port: port) : .fcm(host: "127.0.0.1", port: port)
}
