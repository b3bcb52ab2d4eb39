internal import ApusCore

/// Decides about the requests of one fast connection and records them in the ledger.
struct FastResponder {
    /// The decision about a request.
    struct Decision {
        enum Action {
            /// The request is answered with 200 without a body.
            case accept
            case answer(ProviderAnswer)
            case silence
            case refuse
            case drop
        }

        var action: Action
        var delayMicroseconds: Int64
        var isLast: Bool
    }

    private let state: SimulatorState
    private let shard: LedgerShard
    private let provider: any SimulatedProvider
    private let type: any SimulatedProvider.Type
    private let listener: FaultRoute
    /// The value of ``ProviderTraits/tokenPath``; empty when there is none.
    private let tokenPath: [UInt8]
    private let sendKey: StaticString
    private let hasIDs: Bool
    private let number: UInt64
    private var rules: CachedRules
    private var requests: UInt64 = 0
    private var now = UnixMilliseconds(0)
    /// The time of the current batch.
    private(set) var nanoseconds: Int64 = 0
    /// The time of the first batch.
    private var startedAt: Int64 = 0
    private var saidGoAway = false

    init(state: SimulatorState, shard: LedgerShard, listener: FaultRoute) {
        precondition(listener.isListener, "\(listener.name) has no listener of its own")
        self.state = state
        self.shard = shard
        self.provider = state.provider(of: listener)
        self.type = listener.type
        self.listener = listener
        let traits = self.type.traits
        self.tokenPath = Array((traits.tokenPath ?? "").utf8)
        self.sendKey = traits.sendKey
        self.hasIDs = traits.idHeader != nil
        self.number = state.nextConnection()
        self.rules = CachedRules(state)
        shard.countConnection()
    }

    /// Begins a batch of requests.
    mutating func begin(nanoseconds: Int64) {
        if self.startedAt == 0 { self.startedAt = nanoseconds }
        self.nanoseconds = nanoseconds
        self.now = UnixMilliseconds(nanoseconds / 1_000_000)
        self.rules.refresh()
    }

    /// Copies the parts of the headers that are needed until the body is complete.
    @inline(__always)
    func request(_ streamID: UInt32, path: [UInt8], id: [UInt8]) -> FastRequest {
        var request = FastRequest()
        request.streamID = streamID
        if !id.isEmpty { request.id = UUIDText.words(id.span) }
        if !self.tokenPath.isEmpty, path.count == self.tokenPath.count + 64,
            let token = HexWords.decode(path.span, from: path.count - 64)
        {
            request.token = token
            request.hasToken = true
        }
        if !request.hasToken || !self.state.faults.isQuiet { request.path = path }
        return request
    }

    /// Decides about a request. Nearly all have a token of 64 hexadecimal digits in their path and meet no fault.
    @inline(__always)
    mutating func decide(_ request: borrowing FastRequest, body: Span<UInt8>) -> Decision {
        self.requests += 1
        guard request.hasToken, self.state.faults.isQuiet else { return self.decideSlowly(request, body: body) }
        var entry = PackedEntry()
        entry.time = self.nanoseconds
        entry.route = self.listener.number
        entry.token = request.token
        entry.tokenLength = 32
        entry.flags.insert(.rawToken)
        if let id = request.id {
            entry.id = id
            entry.flags.insert(.uuid)
        }
        entry.status = 200
        var action = Decision.Action.accept
        let digest = TokenDigest(words: request.token)
        if let behavior = self.rules.current.behaviors.behavior(of: digest, now: self.now),
            let answer = self.type.answer(to: behavior)
        {
            entry.status = answer.status
            action = .answer(answer)
        }
        self.shard.record(entry, send: body.extracting(PayloadReader.text(of: self.sendKey, in: body)))
        return Decision(action: action, delayMicroseconds: 0, isLast: false)
    }

    @inline(never)
    private mutating func decideSlowly(_ request: borrowing FastRequest, body: Span<UInt8>) -> Decision {
        // The path of a token is kept only while there are faults.
        let path = request.path.isEmpty ? self.tokenPath : request.path
        let route = self.type.route(path: path.span)
        let draw = self.state.faults.next(route, path: path.span, now: self.now)
        var decision = Decision(
            action: .accept,
            delayMicroseconds: draw.delayMicroseconds,
            isLast: self.isLast(draw.fault),
        )
        let number = self.number << 32 | self.requests
        let recipient =
            request.hasToken
            ? Recipient(token: HexWords.bytes(request.token), isRaw: true)
            : self.type.recipient(path: path, body: body)
        if draw.fault == .refusal {
            decision.action = .refuse
        } else if let answer = self.faultyAnswer(draw, route: route, number: number) {
            decision.action = .answer(answer)
        } else if let answer = self.refusal(of: recipient) {
            decision.action = .answer(answer)
        } else if let answer = self.provider.fastAnswer(route, number: number, now: self.now) {
            decision.action = .answer(answer)
        }
        self.record(request, body: body, route: route, recipient, decision, draw.fault, number)
        switch draw.fault {
        // Half a body is useless to a client that only counts answers.
        case .silence, .halfBody: decision.action = .silence
        case .drop: decision.action = .drop
        default: break
        }
        return decision
    }

    /// Returns true when GOAWAY is due; a connection gets at most one.
    private mutating func isLast(_ fault: Fault?) -> Bool {
        guard !self.saidGoAway else { return false }
        let age = self.nanoseconds - self.startedAt
        self.saidGoAway =
            fault == .goAway || self.state.faults.isGoAwayDue(self.listener, requests: self.requests, age: age)
        if self.saidGoAway { self.shard.countGoAway() }
        return self.saidGoAway
    }

    private func faultyAnswer(_ draw: FaultDraw, route: FaultRoute, number: UInt64) -> ProviderAnswer? {
        guard let fault = draw.fault else { return nil }
        return self.type.answer(
            fault,
            route: route,
            id: nil,
            retryAfter: draw.retryAfter ?? self.state.faults.plan.retryAfter,
            number: number,
            now: self.now,
        )
    }

    private func refusal(of recipient: Recipient?) -> ProviderAnswer? {
        guard let recipient else { return nil }
        let digest = TokenDigest(recipient.token.span)
        return self.rules.current.behaviors.behavior(of: digest, now: self.now).flatMap { self.type.answer(to: $0) }
    }

    private func record(
        _ request: borrowing FastRequest,
        body: Span<UInt8>,
        route: FaultRoute,
        _ recipient: Recipient?,
        _ decision: Decision,
        _ fault: Fault?,
        _ number: UInt64,
    ) {
        let status: Int
        switch decision.action {
        case .accept: status = 200
        case .answer(let answer): status = answer.status
        case .silence, .refuse, .drop: status = 0
        }
        guard let recipient else { return self.shard.count(route, status: status, fault: fault) }
        var id = LedgerShard.ID.none
        if let words = request.id {
            id = .uuid(words.0, words.1)
        } else if !self.hasIDs, status == 200 {
            id = .number(number)
        }
        self.shard.record(
            route,
            token: Array(recipient.token.prefix(Limits.tokenBytesMax)).span,
            isRaw: recipient.isRaw,
            id: id,
            send: body.extracting(PayloadReader.text(of: self.sendKey, in: body)),
            status: status,
            fault: fault,
            time: self.nanoseconds,
        )
    }
}
