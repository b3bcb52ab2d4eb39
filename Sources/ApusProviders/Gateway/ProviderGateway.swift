package import ApusCore
internal import ApusHTTP2
package import ApusTLS
package import Logging
package import NIOCore

/// Gets a gateway's answers, on its event loop and never from within `submit`.
package protocol ProviderGatewayDelegate: AnyObject {
    /// The one end of a request. The answer is lent: it may be read until this returns.
    func gateway(
        _ gateway: ProviderGateway,
        answered tag: UInt64,
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
    )
    /// There is room after it was denied, or after a request was handed back that may go again at once.
    func gatewayHasRoom(_ gateway: ProviderGateway)
    /// The provider does not take our credential, in that word: nothing goes out before ``ProviderGateway/restored()``.
    func gateway(_ gateway: ProviderGateway, heldFor word: String)
    /// A connection was made: how long name look-up, TCP and TLS took together, and TLS alone, in nanoseconds.
    func gateway(_ gateway: ProviderGateway, connectedWithin nanoseconds: Int64, handshake: Int64)
    /// The provider answered a PING: after how long, in nanoseconds.
    func gateway(_ gateway: ProviderGateway, pingAnsweredWithin nanoseconds: Int64)
}

extension ProviderGatewayDelegate {
    /// Not looked at.
    package func gateway(_ gateway: ProviderGateway, connectedWithin nanoseconds: Int64, handshake: Int64) {}
    /// Not looked at.
    package func gateway(_ gateway: ProviderGateway, pingAnsweredWithin nanoseconds: Int64) {}
}

/// Carries the requests of one route from one event loop: to its provider, over HTTP/2 and TLS.
///
/// Every submitted tag gets exactly one answer. Everything is to be called on the event loop. A gateway that was started must
/// be drained: its connections hold it until they have ended. Handing a request in, and its acceptance, allocate nothing.
package final class ProviderGateway {
    /// Answers that were not given by the provider and wait to be reported.
    package static let localAnswersMax = 1_024
    /// Requests that may be turned away unseen, one after the other, before their connection is closed.
    static let turnedAwayMax = 1_000

    package let configuration: ProviderGatewayConfiguration
    package let eventLoop: any EventLoop
    let credential: any ProviderCredential
    let tls: TLSContext
    let clock: any WallClock
    let logger: Logger

    /// Not retained: whoever owns the gateway gets its answers.
    private unowned(unsafe) var listener: (any ProviderGatewayDelegate)?

    var pool: ConnectionPool
    var connections: [ProviderConnection?]
    var counts = ProviderGatewayCounts()
    var phase = Phase.idle
    var generator = SystemRandomNumberGenerator()
    var attemptTimer: Scheduled<Void>?
    var attemptTimerAt = UInt64.max
    var housekeeper: Scheduled<Void>?
    var drained: EventLoopPromise<Void>?
    var turnedAwayInARow = 0

    /// The header of every request; nil: there is none.
    var authorization: HeaderValue?
    /// Whether requests need none, because connections show a certificate.
    var isCertified = false
    /// Which header it is: requests remember theirs.
    var authorizationNumber: UInt32 = 0
    var isAsking = false
    var askAgainAt: UnixMilliseconds?
    /// Whether nothing goes out before somebody says that our configuration is right again.
    package internal(set) var isHeld = false

    private let requestNanoseconds: UInt64
    private var localAnswers: [LocalAnswer] = []
    private var isLocalScheduled = false
    private var deniedExpress = false
    private var deniedBulk = false
    private var isRoomScheduled = false

    /// What a gateway does.
    enum Phase {
        /// Not started. Can become `running` or `drained`.
        case idle
        /// Can become `draining`.
        case running
        /// Takes nothing, waits for answers. Can become `drained`.
        case draining
        /// Over.
        case drained
    }

    /// A request that was not sent, because its token is none.
    private struct LocalAnswer {
        let tag: UInt64
        let startedAt: UInt64
    }

    /// A gateway that does nothing before ``start()``.
    package init(
        configuration: ProviderGatewayConfiguration,
        credential: any ProviderCredential,
        eventLoop: any EventLoop,
        tls: TLSContext,
        clock: any WallClock,
        logger: Logger,
    ) {
        precondition(
            configuration.isValid,
            "the gateway's limits are impossible, or answers not awaited for as long as the provider wants"
        )
        self.configuration = configuration
        self.credential = credential
        self.eventLoop = eventLoop
        self.tls = tls
        self.clock = clock
        self.logger = logger
        self.pool = ConnectionPool(configuration.poolLimits)
        self.connections = []
        self.requestNanoseconds = UInt64(configuration.requestTimeout.nanoseconds)
        unsafe self.listener = nil
        self.connections = Array(repeating: nil, count: self.pool.capacity)
    }

    /// Who gets the answers; must live as long as the gateway is used.
    package var delegate: (any ProviderGatewayDelegate)? {
        get { unsafe self.listener }
        set { unsafe self.listener = newValue }
    }

    // MARK: Requests

    /// Whether there is something to send with.
    @inline(__always)
    var hasCredential: Bool { self.authorization != nil || self.isCertified }

    @inline(__always)
    private var canSend: Bool { !self.isHeld && self.hasCredential && self.phase == .running }

    /// Requests on the wire.
    package var inFlight: Int { self.pool.census.inFlight }

    /// Whether a request of that lane would be taken now. After a no, the delegate hears when there is room.
    @inline(__always)
    package func hasRoom(_ lane: Lane) -> Bool {
        if self.canSend, self.pool.choose(lane) != nil { return true }
        self.deny(lane)
        return false
    }

    /// Hands a request in. False: there is no room on that lane, as ``hasRoom(_:)`` would say.
    ///
    /// - Parameters:
    ///   - token: as the message's template takes it: raw bytes or text.
    ///   - badge: what the device's badge has come to; of no effect unless the message counts.
    ///   - id: the request's UUID in two big-endian halves, sent where the message carries one; nil: none.
    ///   - tag: comes back with the answer.
    ///   - now: nanoseconds of the monotonic clock; whoever submits many at once looks at it once.
    package func submit(
        _ message: PreparedMessage,
        token: Span<UInt8>,
        badge: UInt32 = 0,
        id: (UInt64, UInt64)?,
        tag: UInt64,
        lane: Lane,
        now: UInt64 = NIODeadline.now().uptimeNanoseconds,
    ) -> Bool {
        guard self.canSend else {
            self.deny(lane)
            return false
        }
        let requestID = message.carriesID ? id.map { RequestID(high: $0.0, low: $0.1) } : nil
        while let place = self.pool.choose(lane) {
            guard let connection = self.connections[place] else {
                preconditionFailure("an open place without connection")
            }
            let result = connection.submit(
                message.template,
                authorization: self.authorization,
                credential: self.authorizationNumber,
                token: token,
                badge: badge,
                id: requestID,
                tag: tag,
                now: now,
                deadline: .uptimeNanoseconds(now &+ self.requestNanoseconds),
            )
            switch result {
            case .submitted:
                self.pool.submitted(place)
                self.counts.submitted += 1
                self.counts.payloadBytes += UInt64(message.payloadBytes)
                return true
            case .full, .closed: self.pool.blocked(place)
            case .invalidToken:
                guard self.localAnswers.count < Self.localAnswersMax else {
                    self.deny(lane)
                    return false
                }
                self.answerLocally(tag, now)
                return true
            }
        }
        self.deny(lane)
        return false
    }

    private func deny(_ lane: Lane) {
        switch lane {
        case .express: self.deniedExpress = true
        case .bulk:
            self.deniedBulk = true
            self.pool.saturated()
        }
        self.openConnections()
    }

    /// Somebody who was denied may have room now: told at the end of the turn.
    @inline(__always)
    func roomMayHaveChanged() {
        guard self.deniedExpress || self.deniedBulk, !self.isRoomScheduled else { return }
        self.scheduleRoom()
    }

    /// A request was handed back that may go again at once.
    func handedBack() {
        self.deniedExpress = true
        self.deniedBulk = true
        self.roomMayHaveChanged()
    }

    private func scheduleRoom() {
        self.isRoomScheduled = true
        self.eventLoop.assumeIsolated().execute {
            self.isRoomScheduled = false
            guard self.canSend else { return }
            let express = self.deniedExpress && self.pool.choose(.express) != nil
            let bulk = self.deniedBulk && self.pool.choose(.bulk) != nil
            guard express || bulk else { return }
            if express { self.deniedExpress = false }
            if bulk { self.deniedBulk = false }
            self.delegate?.gatewayHasRoom(self)
        }
    }

    // MARK: Answers

    private func answerLocally(_ tag: UInt64, _ now: UInt64) {
        self.counts.answeredLocally += 1
        self.localAnswers.append(LocalAnswer(tag: tag, startedAt: now))
        guard !self.isLocalScheduled else { return }
        self.isLocalScheduled = true
        self.eventLoop.assumeIsolated().execute {
            self.isLocalScheduled = false
            let answers = self.localAnswers
            self.localAnswers.removeAll()
            for answer in answers {
                self.report(
                    answer.tag,
                    .suspect(.badToken),
                    ProviderAnswer(startedAt: answer.startedAt, reason: "a token of this form cannot be sent"),
                )
            }
            self.roomMayHaveChanged()
            self.finishDrain()
        }
    }

    /// Whether answers wait to be reported.
    var hasLocalAnswers: Bool { !self.localAnswers.isEmpty }

    @inline(__always)
    func report(_ tag: UInt64, _ outcome: DeliveryOutcome, _ answer: ProviderAnswer) {
        self.delegate?.gateway(self, answered: tag, outcome, answer)
    }

    /// A number for jitter.
    var draw: Double { Double.random(in: 0..<1, using: &self.generator) }

    static func now() -> UInt64 { NIODeadline.now().uptimeNanoseconds }
}
