internal import ApusCore
package import ApusTLS

/// The decision about a request.
package struct Decision: Sendable {
    /// The actions on the request's stream.
    package enum Action: Hashable, Sendable {
        /// The request is answered.
        case answer(ProviderAnswer)
        /// The request gets half of the answer's body, and nothing more.
        case half(ProviderAnswer)
        /// The request is never answered.
        case silence
        /// The request is reset with REFUSED_STREAM.
        case refuse
        /// The connection breaks.
        case drop
    }

    /// The action on the request's stream.
    package var action: Action
    /// The delay of the answer in microseconds.
    package var delayMicroseconds: Int64 = 0
    /// The form of the GOAWAY that follows; nil for none.
    package var goAway: GoAwayForm?
    /// True when GOAWAY follows.
    package var isLast: Bool { self.goAway != nil }
    /// The limit of concurrent requests from now on; nil for no change, or when `opensStreams` lifts it.
    package var streamsMax: UInt32?
    /// True when the client may send several requests at a time from now on.
    package var opensStreams = false
}

/// A connection to a strict provider: decides about each request and records it in the ledger.
///
/// It is pure except for the ledger and the faults, which all connections share; the time is an argument.
package struct StrictConnection {
    private let state: SimulatorState
    private let shard: LedgerShard
    private let type: any SimulatedProvider.Type
    private let traits: ProviderTraits
    private let listener: FaultRoute
    private let number: UInt64
    private var rules: CachedRules
    private var connection: any ProviderConnection
    private var requests: UInt64 = 0
    /// True after the client was told that it may send several requests at a time.
    private var isOpened: Bool
    private var startedAt: Int64?
    private var saidGoAway = false
    /// True after an accepted request whose answer is delayed or never comes.
    private var hasUnanswered = false
    /// The limit of concurrent requests that a phase of the faults has set; nil for none.
    private var streamsMax: UInt32?

    /// Creates the state of a connection that was just accepted at a listener.
    package init(state: SimulatorState, shard: LedgerShard, listener: FaultRoute) {
        precondition(listener.isListener, "\(listener.name) has no listener of its own")
        let provider = state.provider(of: listener)
        self.state = state
        self.shard = shard
        self.type = Swift.type(of: provider)
        self.traits = self.type.traits
        self.listener = listener
        self.number = state.nextConnection()
        self.rules = CachedRules(state)
        self.connection = provider.connect()
        self.isOpened = !self.traits.startsWithOneStream
        shard.countConnection()
    }

    /// Receives the certificate that the client presented in the handshake: the client may send several requests at a time at once.
    package mutating func present(_ certificate: Certificate) {
        self.connection.present(certificate)
        self.isOpened = true
    }

    /// Decides about a request.
    ///
    /// - Parameter nanoseconds: the time of day in nanoseconds since 1970.
    package mutating func decide(_ request: ProviderRequest, nanoseconds: Int64) -> Decision {
        self.rules.refresh()
        self.requests += 1
        let path = Array(request.path.utf8)
        let route = self.type.route(path: path.span)
        let now = UnixMilliseconds(nanoseconds / 1_000_000)
        let draw = self.state.faults.next(route, path: path.span, now: now)
        let context = RequestContext(
            route: route,
            fault: draw.fault,
            retryAfter: draw.retryAfter ?? self.state.faults.plan.retryAfter,
            number: self.number << 32 | self.requests,
            now: now,
            nanoseconds: nanoseconds,
            behaviors: self.rules.current.behaviors,
        )
        let goAway = self.goAway(context)
        guard goAway?.lastStream ?? .this == .this else {
            // The request comes after the last stream that GOAWAY names, so it is not processed.
            self.record(request, context, self.type.recipient(of: request), status: 0)
            var decision = Decision(action: .silence)
            decision.goAway = goAway
            return decision
        }
        var decision = self.decision(request, context)
        decision.delayMicroseconds = draw.delayMicroseconds
        decision.goAway = goAway
        self.noteUnanswered(decision)
        self.announceStreams(&decision, now)
        return decision
    }

    /// Returns the form of a GOAWAY that is due; a connection gets at most one.
    private mutating func goAway(_ context: RequestContext) -> GoAwayForm? {
        let startedAt = self.startedAt ?? context.nanoseconds
        self.startedAt = startedAt
        guard !self.saidGoAway else { return nil }
        var form: GoAwayForm
        if let reason = self.connection.goAwayReason {
            form = GoAwayForm()
            form.reason = reason
            form.lastStream = .none
        } else {
            let (faults, age) = (self.state.faults, context.nanoseconds - startedAt)
            guard
                context.fault == .goAway
                    || faults.isGoAwayDue(self.listener, requests: self.requests, age: age, now: context.now)
            else { return nil }
            form = faults.goAwayForm(self.listener, now: context.now)
            // A client would repeat accepted requests without an answer if GOAWAY disowned them.
            if form.lastStream == .none, self.hasUnanswered { form.lastStream = .before }
        }
        self.saidGoAway = true
        self.shard.countGoAway()
        return form
    }

    private mutating func noteUnanswered(_ decision: Decision) {
        switch decision.action {
        case .answer(let answer): if answer.isAccepted, decision.delayMicroseconds > 0 { self.hasUnanswered = true }
        case .half, .silence: self.hasUnanswered = true
        case .refuse, .drop: break
        }
    }

    /// Announces a phase's limit of requests with the first request in the phase, and lifts it with the first one after it.
    private mutating func announceStreams(_ decision: inout Decision, _ now: UnixMilliseconds) {
        guard self.isOpened else { return }
        let limit = self.state.faults.streamsMax(now: now)
        guard limit != self.streamsMax || decision.opensStreams else { return }
        if limit == nil, self.streamsMax != nil { decision.opensStreams = true }
        self.streamsMax = limit
        decision.streamsMax = limit
    }

    private mutating func decision(_ request: ProviderRequest, _ context: RequestContext) -> Decision {
        guard context.fault != .refusal else {
            self.record(request, context, self.type.recipient(of: request), status: 0)
            return Decision(action: .refuse)
        }
        if let answer = context.fault.flatMap({ self.type.answer($0, to: request, context) }) {
            self.record(request, context, self.type.recipient(of: request), status: answer.status)
            return Decision(action: .answer(answer))
        }
        let validation = self.connection.validate(request, context)
        let answer = validation.answer
        self.record(request, context, validation.recipient, validation.content, status: answer.status)
        if answer.isAccepted, validation.recipient != nil {
            self.rules.current.observer?(AcceptedRequest(self.traits.provider, request))
        }
        var decision = Decision(action: .answer(answer))
        decision.opensStreams = self.connection.isAuthorized && !self.isOpened
        if decision.opensStreams { self.isOpened = true }
        switch context.fault {
        case .silence: decision.action = .silence
        case .drop: decision.action = .drop
        case .halfBody: decision.action = .half(answer)
        default: break
        }
        return decision
    }

    /// Records a message in the ledger, and counts any other request.
    private func record(
        _ request: ProviderRequest,
        _ context: RequestContext,
        _ recipient: Recipient?,
        _ content: [UInt8]? = nil,
        status: Int,
    ) {
        guard let recipient else { return self.shard.count(context.route, status: status, fault: context.fault) }
        var id = LedgerShard.ID.none
        if let header = self.traits.idHeader {
            let words = request.first(header).flatMap { UUIDText.words(Array($0.utf8).span) }
            if let words { id = .uuid(words.0, words.1) }
        } else if (200..<300).contains(status) {
            id = .number(context.number)
        }
        let content = content ?? request.body
        let body = content.span
        self.shard.record(
            context.route,
            token: Array(recipient.token.prefix(Limits.tokenBytesMax)).span,
            isRaw: recipient.isRaw,
            id: id,
            send: body.extracting(PayloadReader.text(of: self.traits.sendKey, in: body)),
            status: status,
            fault: context.fault,
            time: context.nanoseconds,
        )
    }
}
