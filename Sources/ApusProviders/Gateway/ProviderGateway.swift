package import ApusCore
internal import ApusHTTP2
package import ApusTLS
package import Logging
package import NIOCore

/// Receives a gateway's answers, on its event loop and never within a call of `submit`.
package protocol ProviderGatewayDelegate: AnyObject {
    /// Called once per request with its outcome. The answer is lent: it may be read until this returns.
    func gateway(
        _ gateway: ProviderGateway,
        answered tag: UInt64,
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
    )
    /// Called when there is room after it was denied, or after a returned request that may be sent again at once.
    func gatewayHasRoom(_ gateway: ProviderGateway)
    /// Called when the provider refuses our credential, for the given reason: nothing is sent before ``ProviderGateway/restored()``.
    func gateway(_ gateway: ProviderGateway, heldFor word: String)
    /// Called when the gateway cannot connect, when the provider ends a connection before it has answered anything, or when there is no
    /// credential, with the reason in words. It goes on trying.
    func gateway(_ gateway: ProviderGateway, cannotSend detail: String)
    /// Called when a connection was opened, with the nanoseconds that name look-up, TCP and TLS took together, and TLS alone.
    func gateway(_ gateway: ProviderGateway, connectedWithin nanoseconds: Int64, handshake: Int64)
    /// Called when the provider has answered a PING, with its round-trip time in nanoseconds.
    func gateway(_ gateway: ProviderGateway, pingAnsweredWithin nanoseconds: Int64)
}

extension ProviderGatewayDelegate {
    /// Does nothing.
    package func gateway(_ gateway: ProviderGateway, cannotSend detail: String) {}
    /// Does nothing.
    package func gateway(_ gateway: ProviderGateway, connectedWithin nanoseconds: Int64, handshake: Int64) {}
    /// Does nothing.
    package func gateway(_ gateway: ProviderGateway, pingAnsweredWithin nanoseconds: Int64) {}
}

/// Sends the requests of one route, from one event loop, to the provider over HTTP/2 and TLS. A provider whose
/// recipients have addresses of their own is reached by one such gateway for each origin, behind this one.
///
/// Every submitted tag gets exactly one answer. All calls must be made on the event loop. A gateway that was started
/// must be drained: its connections hold it until they have ended. Submitting a request, and its acceptance, allocate
/// nothing.
package final class ProviderGateway {
    /// The maximum number of answers that this gateway gives by itself and has yet to report.
    static let localAnswersMax = 1_024
    /// The maximum number of consecutive requests turned away unprocessed before their connection is closed.
    static let turnedAwayMax = 1_000
    /// The time within which the header is not replaced again for one recipient of many.
    static let renewalNanoseconds: UInt64 = 3_600_000_000_000
    /// The time between two times at which the credential is told that the provider accepts it.
    static let acceptanceNanoseconds: UInt64 = 60_000_000_000
    /// The maximum number of recipients that are at fault themselves when they are refused with a header that others were accepted with, and
    /// again with the next one. The refusal of further ones is about the header.
    static let refusedRecipientsMax = 4
    /// The maximum number of refusals in a row that are about their recipients alone. After that the credential is asked whether others are
    /// still accepted with it.
    static let refusedInARowMax = 16
    /// The wait of a recipient that is refused with a header that others are accepted with.
    static let recipientPauseMilliseconds: Int64 = 300_000

    package let configuration: ProviderGatewayConfiguration
    package let eventLoop: any EventLoop
    let credential: any ProviderCredential
    let tls: TLSContext
    let clock: any WallClock
    let logger: Logger
    /// The configured reader's properties, kept here because every answer asks for them.
    let acceptedStatuses: Range<Int>
    let qualifyingFields: [HTTP2AnswerField]
    /// The gateways to the origins of recipients' addresses; nil for a provider with one address. Then this gateway has no
    /// connections and no credential of its own.
    private(set) var origins: OriginGateways?

    /// Not retained: the gateway's owner receives its answers.
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
    /// The failed attempts to connect since there was a connection; nil while there is one, before the first attempt has failed, and
    /// while the gateway is held. A provider with many addresses has none: one of them says nothing about the others.
    package internal(set) var connectFault: GatewayFault?
    /// The failed attempts to get a credential since there was one; nil while there is one, before the first attempt has failed, and while the
    /// gateway is held.
    var credentialFault: GatewayFault?
    /// The older fault of both kinds; nil when nothing is known against sending.
    package var fault: GatewayFault? {
        [self.connectFault, self.credentialFault].compactMap(\.self).min { $0.since < $1.since }
    }
    /// The time at which the last fault began; nil when a connection since then was of use. A peer that ends each connection after its
    /// handshake is one that cannot be connected to, and has been since then.
    var faultBeganAt: UInt64?

    /// The header of every request; nil when there is none.
    var authorization: HeaderValue?
    /// True when requests need no header, because connections present a certificate.
    var isCertified = false
    /// The number of the header: requests record the one they carry.
    var authorizationNumber: UInt32 = 0
    var isAsking = false
    /// The wait until the credential is asked for again; nil while it is being asked for, after its refusal, and for a certificate.
    var credentialWait: CredentialWait?
    /// The number of the header that was in use when a request was last accepted.
    var acceptedNumber: UInt32?
    /// The time from which the credential is told of an acceptance again.
    var tellsAcceptanceAt: UInt64 = 0
    /// The time at which the header was last replaced because a request was refused with it; nil for never.
    var renewedAt: UInt64?
    /// The recipients that were refused with the header before, though others were accepted with it.
    var refusedRecipients: Set<UInt32> = []
    /// The number of refusals that were about their recipients alone, since a request was accepted or the credential was asked.
    var refusedInARow = 0
    /// True while nothing is sent until an operator has corrected the configuration.
    package internal(set) var isHeld = false

    private let requestNanoseconds: UInt64
    private var localAnswers: [LocalAnswer] = []
    private var isLocalScheduled = false
    private var deniedExpress = false
    private var deniedBulk = false
    private var isRoomScheduled = false

    /// The phases of a gateway's life.
    enum Phase {
        /// The gateway is not started. Can become `running` or `drained`.
        case idle
        /// Can become `draining`.
        case running
        /// The gateway accepts no requests and waits for answers. Can become `drained`.
        case draining
        /// The gateway has ended.
        case drained
    }

    /// The answer to a request that was not sent.
    private struct LocalAnswer {
        let tag: UInt64
        let startedAt: UInt64
        let outcome: DeliveryOutcome
        let reason: String
    }

    /// Creates a gateway that does nothing before ``start()``.
    ///
    /// - Parameter threads: the threads that make requests to addresses of recipients' own.
    package init(
        configuration: ProviderGatewayConfiguration,
        credential: any ProviderCredential,
        eventLoop: any EventLoop,
        tls: TLSContext,
        clock: any WallClock,
        logger: Logger,
        threads: BackgroundThreads = .shared,
    ) {
        precondition(
            configuration.isValid,
            "the gateway's limits are invalid, or its request timeout is below the provider's minimum"
        )
        self.configuration = configuration
        self.acceptedStatuses = configuration.answers.acceptedStatuses
        self.qualifyingFields = configuration.answers.qualifyingFields
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
        if let addressing = configuration.addressing {
            self.origins = OriginGateways(addressing, threads: threads, limits: configuration.originLimits, owner: self)
        }
    }

    /// Receives the answers; it must live as long as the gateway is used.
    package var delegate: (any ProviderGatewayDelegate)? {
        get { unsafe self.listener }
        set { unsafe self.listener = newValue }
    }

    // MARK: Requests

    /// True when there is a credential to send with.
    @inline(__always)
    var hasCredential: Bool { self.authorization != nil || self.isCertified }

    @inline(__always)
    private var canSend: Bool { !self.isHeld && self.hasCredential && self.phase == .running }

    /// True while one of the origins of recipients' addresses cannot be reached; always false for a provider with one address.
    package var hasFailingOrigin: Bool { self.origins?.isFailing ?? false }

    /// The number of requests in flight.
    package var inFlight: Int { self.origins?.inFlight ?? self.pool.statistics.inFlight }

    /// Returns true when a request of the lane would be accepted now. After false, the delegate is called when there is room.
    @inline(__always)
    package func hasRoom(_ lane: Lane) -> Bool {
        if self.canSend, self.pool.choose(lane) != nil { return true }
        if let origins, self.phase == .running, origins.hasRoom(lane) { return true }
        self.deny(lane)
        return false
    }

    /// Submits a request. Returns false when there is no room on the lane, as ``hasRoom(_:)`` does.
    ///
    /// - Parameters:
    ///   - token: the token in the form of the message's template: raw bytes or text.
    ///   - badge: the device's current badge; ignored unless the message counts badges.
    ///   - id: the request's UUID in two big-endian halves, sent where the message carries one; nil for none.
    ///   - tag: returned with the answer.
    ///   - now: nanoseconds of the monotonic clock; a caller that submits many requests reads it once.
    ///   - validUntil: the time from which a request that still waits to be written is given back as a free deferral.
    package func submit(
        _ message: PreparedMessage,
        token: Span<UInt8>,
        badge: UInt32 = 0,
        id: (UInt64, UInt64)?,
        tag: UInt64,
        lane: Lane,
        now: UInt64 = NIODeadline.now().uptimeNanoseconds,
        validUntil: UInt64 = .max,
    ) -> Bool {
        guard self.canSend else {
            // A gateway to addresses of recipients' own has no credential itself.
            if let origins, self.phase == .running, origins.hasRoom(lane),
                self.localAnswers.count < Self.localAnswersMax
            {
                origins.submit(
                    message,
                    to: token,
                    badge: badge,
                    tag: tag,
                    lane: lane,
                    now: now,
                    validUntil: validUntil,
                )
                return true
            }
            self.deny(lane)
            return false
        }
        let requestID = message.carriesID ? id.map { RequestID(high: $0.0, low: $0.1) } : nil
        while let place = self.pool.choose(lane) {
            guard let connection = self.connections[place] else {
                preconditionFailure("the pool chose an entry without a connection")
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
                validUntil: validUntil,
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
                // The provider was not asked: nothing is known against the token.
                self.answerLocally(tag, now, .rejected(.badToken), "a token of this form cannot be sent")
                return true
            }
        }
        self.deny(lane)
        return false
    }

    /// Submits a request that differs in all its parts. Returns false when there is no room on the lane.
    func submit(
        _ request: (path: String, headers: [HeaderField], body: [UInt8]),
        tag: UInt64,
        lane: Lane,
        now: UInt64,
        validUntil: UInt64,
    ) -> Bool {
        while self.canSend, let place = self.pool.choose(lane) {
            guard let connection = self.connections[place] else {
                preconditionFailure("the pool chose an entry without a connection")
            }
            let origin = Origin(host: self.configuration.host, port: self.configuration.port)
            guard
                let plain = try? PlainRequest(
                    method: "POST",
                    authority: origin.authority,
                    path: request.path,
                    headers: request.headers
                        + (try self.authorization.map { [try HeaderField("authorization", $0)] } ?? []),
                    body: request.body,
                )
            else {
                self.answerLocally(tag, now, .suspect(.badToken), "an address of this form cannot be sent to")
                return true
            }
            let deadline = NIODeadline.uptimeNanoseconds(now &+ self.requestNanoseconds)
            let number = self.authorizationNumber
            let recipient = UInt32(truncatingIfNeeded: request.path.hashValue) | 1
            switch connection.submit(
                plain,
                credential: number,
                recipient: recipient,
                tag: tag,
                now: now,
                deadline: deadline,
                validUntil: validUntil,
            ) {
            case .submitted:
                self.pool.submitted(place)
                self.counts.submitted += 1
                self.counts.payloadBytes += UInt64(request.body.count)
                return true
            case .full, .closed: self.pool.blocked(place)
            case .invalidToken: preconditionFailure("a plain request has no token")
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

    /// True while a lane was denied and nobody was told of room since.
    var isWanted: Bool { self.deniedExpress || self.deniedBulk }

    /// Schedules a call of the delegate at the end of the turn, if a lane was denied that may have room now.
    @inline(__always)
    func roomMayHaveChanged() {
        guard self.deniedExpress || self.deniedBulk, !self.isRoomScheduled else { return }
        self.scheduleRoom()
    }

    /// Handles a returned request that may be sent again at once.
    func handedBack() {
        self.deniedExpress = true
        self.deniedBulk = true
        self.roomMayHaveChanged()
    }

    private func scheduleRoom() {
        self.isRoomScheduled = true
        self.eventLoop.assumeIsolated().execute {
            self.isRoomScheduled = false
            guard self.canSend || (self.origins != nil && self.phase == .running) else { return }
            let express = self.deniedExpress && self.mayTake(.express)
            let bulk = self.deniedBulk && self.mayTake(.bulk)
            guard express || bulk else { return }
            if express { self.deniedExpress = false }
            if bulk { self.deniedBulk = false }
            self.delegate?.gatewayHasRoom(self)
        }
    }

    private func mayTake(_ lane: Lane) -> Bool { self.origins?.hasRoom(lane) ?? (self.pool.choose(lane) != nil) }

    // MARK: Answers

    /// Answers a request without sending it, at the end of the turn.
    func answerLocally(_ tag: UInt64, _ now: UInt64, _ outcome: DeliveryOutcome, _ reason: String) {
        self.counts.answeredLocally += 1
        self.localAnswers.append(LocalAnswer(tag: tag, startedAt: now, outcome: outcome, reason: reason))
        guard !self.isLocalScheduled else { return }
        self.isLocalScheduled = true
        self.eventLoop.assumeIsolated().execute {
            self.isLocalScheduled = false
            let answers = self.localAnswers
            self.localAnswers.removeAll()
            for answer in answers {
                self.report(
                    answer.tag,
                    answer.outcome,
                    ProviderAnswer(unsentSince: answer.startedAt, reason: answer.reason),
                )
            }
            self.roomMayHaveChanged()
            self.finishDrain()
        }
    }

    /// True when local answers have yet to be reported.
    var hasLocalAnswers: Bool { !self.localAnswers.isEmpty }

    @inline(__always)
    func report(_ tag: UInt64, _ outcome: DeliveryOutcome, _ answer: ProviderAnswer) {
        self.delegate?.gateway(self, answered: tag, outcome, answer)
    }

    /// A random number for jitter.
    var draw: Double { Double.random(in: 0..<1, using: &self.generator) }

    static func now() -> UInt64 { NIODeadline.now().uptimeNanoseconds }
}
